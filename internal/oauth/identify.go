package oauth

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"github.com/mcp-metarouter/metarouter/internal/urls"
	"github.com/mcp-metarouter/metarouter/internal/wire"
)

const deviceGrant = "urn:ietf:params:oauth:grant-type:device_code"

// Redirect says where logins come back, for a client that is registered.
type Redirect struct {
	URI         string // that the login uses; "" if it does not come back, as a login by device code
	DocumentURL string // of a client ID metadata document that lists URI; may be ""
}

// Identify returns who the router is for the issuer, in this order: the client of the settings, a
// client ID metadata document, and else one that it registers now. kept is the client that was
// registered before, or nil: it is used again if its secret has not expired and it has the same
// redirect URI.
func Identify(ctx context.Context, c *http.Client, s Server, i Issuer, r Redirect, kept *Client) (Client, error) {
	if s.Settings.ClientID != "" {
		return settledClient(s.Settings, i, r), nil
	}
	if s.Settings.Grant == ClientCredentials {
		return Client{}, errors.New(`the grant client_credentials needs a client of one's own: put "oauth": {"clientId": …, "clientSecret": …} into the server's entry`)
	}
	// A client with a document has no secret, and only this way to say who it is.
	public := i.AuthMethods == nil || slices.Contains(i.AuthMethods, authNone)
	if r.DocumentURL != "" && i.ClientDocuments && (public || i.RegistrationEndpoint == "") {
		return Client{ID: r.DocumentURL, AuthMethod: authNone, RedirectURI: r.URI}, nil
	}
	if kept != nil && fits(*kept, r) {
		return *kept, nil
	}
	if i.RegistrationEndpoint == "" {
		return Client{}, unknownClient(s.Settings, i, r, nil)
	}
	client, err := register(ctx, c, s.Settings, i, r)
	switch {
	case errors.As(err, new(*Refusal)), errors.Is(err, errSilent):
		return Client{}, unknownClient(s.Settings, i, r, err)
	case err != nil:
		return Client{}, fmt.Errorf("register the router as a client: %w", err)
	}
	return client, nil
}

// settledClient returns the client of the settings.
func settledClient(s Settings, i Issuer, r Redirect) Client {
	client := Client{ID: s.ClientID, Secret: s.ClientSecret, AuthMethod: authNone, RedirectURI: r.URI}
	switch {
	case s.PrivateKey != "":
		client.AuthMethod, client.Secret = authJWT, ""
	case s.ClientSecret != "":
		client.AuthMethod = secretMethod(i)
	}
	return client
}

// secretMethod returns how a client with a secret says who it is: client_secret_basic, which each
// issuer must know, unless it lists only the other one.
func secretMethod(i Issuer) string {
	if !slices.Contains(i.AuthMethods, authBasic) && slices.Contains(i.AuthMethods, authPost) {
		return authPost
	}
	return authBasic
}

// fits reports whether a client that was registered before can be used for the redirect.
func fits(kept Client, r Redirect) bool {
	alive := kept.Expires.IsZero() || time.Now().Add(time.Minute).Before(kept.Expires)
	return kept.Registered && kept.ID != "" && alive && (r.URI == "" || kept.RedirectURI == r.URI)
}

// unknownClient advises a person if the issuer does not let clients register themselves.
func unknownClient(s Settings, i Issuer, r Redirect, refused error) error {
	entry := `"clientId": "…"`
	if u, err := url.Parse(r.URI); err == nil && u.Hostname() == "127.0.0.1" && u.Path == "/callback" && s.CallbackPort == 0 && s.CallbackURL == "" { // any free port
		r.URI = fmt.Sprintf("http://localhost:%s/callback", u.Port())
		entry += `, "callbackPort": ` + u.Port()
	}
	back := ""
	if r.URI != "" {
		back = " with the redirect URI " + r.URI
	}
	err := fmt.Errorf(`the issuer %s does not register the router: register a client there by hand%s, and put "oauth": {%s} into the server's entry`, oneLine(i.ID), back, entry)
	if refused != nil {
		err = fmt.Errorf("%w: %w", err, refused)
	}
	return err
}

// register registers the router as a client (RFC 7591), which says who it is in the first way that the
// issuer lists.
func register(ctx context.Context, c *http.Client, s Settings, i Issuer, r Redirect) (Client, error) {
	methods := []string{authNone, authBasic, authPost}
	if i.AuthMethods != nil {
		methods = slices.DeleteFunc(methods, func(method string) bool { return !slices.Contains(i.AuthMethods, method) })
	}
	if len(methods) == 0 {
		return Client{}, fmt.Errorf(`the issuer %s knows no client that registers itself without a key (it lists %s): register a client there by hand, and put "oauth": {"clientId": "…", "privateKey": "…"} into the server's entry`,
			oneLine(i.ID), oneLine(strings.Join(i.AuthMethods, ", ")))
	}
	body := wire.Marshal(metadata(methods[0], s, i, r))
	answer, err := post(ctx, c, "registration", i.RegistrationEndpoint, http.Header{"Content-Type": {"application/json"}}, string(body), nil)
	if err != nil {
		return Client{}, err
	}
	return readClient(answer, methods[0], i, r)
}

// metadata describes the router to the issuer.
func metadata(method string, s Settings, i Issuer, r Redirect) *oauthex.ClientRegistrationMetadata {
	m := &oauthex.ClientRegistrationMetadata{
		ClientName:              "metarouter",
		ApplicationType:         "native",
		TokenEndpointAuthMethod: method,
		RedirectURIs:            []string{},
		ResponseTypes:           []string{},
	}
	if r.URI != "" {
		m.GrantTypes = append(m.GrantTypes, AuthorizationCode)
		m.ResponseTypes = append(m.ResponseTypes, "code")
		m.RedirectURIs = append(m.RedirectURIs, r.URI)
		if strings.HasPrefix(r.URI, "https:") && urls.LeadsElsewhere(r.URI) { // a website
			m.ApplicationType = "web"
		}
	}
	m.GrantTypes = append(m.GrantTypes, "refresh_token")
	if r.URI == "" || s.Grant == DeviceCode || i.DeviceEndpoint != "" || slices.Contains(i.Grants, deviceGrant) {
		m.GrantTypes = append(m.GrantTypes, deviceGrant)
	}
	// Without a scope a client may ask for each. The settings are all that is ever asked for.
	if len(s.Scopes) > 0 {
		m.Scope = strings.Join(ScopesToAsk(s, &Found{Issuer: i}, Challenge{}, nil), " ")
	}
	return m
}

// readClient reads the answer to a registration as asked with the method. The issuer may have
// chosen another method.
func readClient(r reply, asked string, i Issuer, redirect Redirect) (Client, error) {
	client := Client{
		ID:          r.text("client_id"),
		Secret:      r.text("client_secret"),
		AuthMethod:  r.text("token_endpoint_auth_method"),
		RedirectURI: redirect.URI,
		Registered:  true,
	}
	if client.ID == "" || len(client.ID) > maxID || !isVisible(client.ID, ' ') || !isVisible(client.Secret, ' ') {
		return Client{}, errors.New("the issuer registers the router without a client_id that can be used")
	}
	if client.AuthMethod == "" {
		client.AuthMethod = asked
		if client.Secret == "" {
			client.AuthMethod = authNone
		} else if asked == authNone {
			client.AuthMethod = secretMethod(i)
		}
	}
	switch client.AuthMethod {
	case authNone:
		client.Secret = ""
	case authBasic, authPost:
		if client.Secret == "" {
			return Client{}, fmt.Errorf("the issuer registers the router for %s, but sends no client_secret", client.AuthMethod)
		}
		if at := secondsOf(r["client_secret_expires_at"]); at > 0 { // 0 is never
			client.Expires = time.Unix(int64(at/time.Second), 0)
		}
	default:
		return Client{}, fmt.Errorf("the issuer registers the router for %q, which it has not asked for", shorten(client.AuthMethod, 64))
	}
	return client, nil
}
