package oauth

import (
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

const home = "http://127.0.0.1:1234/callback"

// registrar returns an issuer that registers clients with these answers, one after the other.
func registrar(all ...string) (Issuer, *scripted, *http.Client) {
	g, s := answers(all...)
	return Issuer{ID: g.Issuer.ID, RegistrationEndpoint: g.Issuer.RegistrationEndpoint}, s, g.HTTP
}

func TestIdentifyOrder(t *testing.T) {
	document := Redirect{URI: home, DocumentURL: "https://me.example/client.json"}
	kept := &Client{ID: "kept", AuthMethod: "none", RedirectURI: home, Registered: true}
	changed := func(change func(c *Client)) *Client { c := *kept; change(&c); return &c }
	all := func(i Issuer) Issuer {
		i.ClientDocuments, i.AuthMethods = true, []string{"none", "client_secret_basic", "client_secret_post"}
		return i
	}
	for name, test := range map[string]struct {
		settings Settings
		issuer   func(Issuer) Issuer
		redirect Redirect
		kept     *Client
		want     Client
	}{
		"public client of the settings": {Settings{ClientID: "mine"}, all, document, kept, Client{ID: "mine", AuthMethod: "none", RedirectURI: home}},
		"with a secret":                 {Settings{ClientID: "mine", ClientSecret: "s"}, all, document, kept, Client{ID: "mine", Secret: "s", AuthMethod: "client_secret_basic", RedirectURI: home}},
		"with a secret, post only": {Settings{ClientID: "mine", ClientSecret: "s"}, func(i Issuer) Issuer { i.AuthMethods = []string{"client_secret_post"}; return i }, document, nil,
			Client{ID: "mine", Secret: "s", AuthMethod: "client_secret_post", RedirectURI: home}},
		"with a key":      {Settings{ClientID: "mine", PrivateKey: "k"}, all, document, kept, Client{ID: "mine", AuthMethod: "private_key_jwt", RedirectURI: home}},
		"document":        {Settings{}, all, document, kept, Client{ID: document.DocumentURL, AuthMethod: "none", RedirectURI: home}},
		"document unread": {Settings{}, func(i Issuer) Issuer { return i }, document, kept, *kept},
		"document, but no public clients": {Settings{}, func(i Issuer) Issuer {
			i.ClientDocuments, i.AuthMethods = true, []string{"client_secret_basic"}
			return i
		}, document, kept, *kept},
		"kept":          {Settings{}, all, Redirect{URI: home}, kept, *kept},
		"device":        {Settings{}, all, Redirect{}, kept, *kept},
		"kept, alive":   {Settings{}, all, Redirect{URI: home}, changed(func(c *Client) { c.Expires = time.Unix(1<<40, 0) }), *changed(func(c *Client) { c.Expires = time.Unix(1<<40, 0) })},
		"kept, expired": {Settings{}, all, Redirect{URI: home}, changed(func(c *Client) { c.Expires = time.Unix(1, 0) }), Client{ID: "new", AuthMethod: "none", RedirectURI: home, Registered: true}},
		"kept for another redirect": {Settings{}, all, Redirect{URI: home}, changed(func(c *Client) { c.RedirectURI = "http://127.0.0.1:4321/callback" }),
			Client{ID: "new", AuthMethod: "none", RedirectURI: home, Registered: true}},
		"new": {Settings{}, all, Redirect{URI: home}, nil, Client{ID: "new", AuthMethod: "none", RedirectURI: home, Registered: true}},
	} {
		t.Run(name, func(t *testing.T) {
			issuer, asked, client := registrar(`201 {"client_id": "new", "jwks": {"keys": []}, "client_secret_expires_at": "0"}`)
			got, err := Identify(t.Context(), client, Server{Settings: test.settings}, test.issuer(issuer), test.redirect, test.kept)
			if err != nil || !reflect.DeepEqual(got, test.want) {
				t.Errorf("%+v with secret %q (%v), want %+v", got, got.Secret, err, test.want)
			}
			expect.Equal(t, len(asked.asked) > 0, test.want.ID == "new", "registered")
		})
	}
}

func TestRegistration(t *testing.T) {
	for name, test := range map[string]struct {
		settings Settings
		change   func(*Issuer)
		redirect Redirect
		want     map[string]any
	}{
		"native": {Settings{}, func(i *Issuer) {}, Redirect{URI: home}, map[string]any{
			"client_name": "metarouter", "application_type": "native", "token_endpoint_auth_method": "none", "response_types": []any{"code"},
			"redirect_uris": []any{home}, "grant_types": []any{"authorization_code", "refresh_token"}}},
		"web, device, scopes": {Settings{Scopes: []string{"a"}, Grant: DeviceCode}, func(i *Issuer) { i.Scopes = []string{"offline_access"} },
			Redirect{URI: "https://router.example/oauth/callback"}, map[string]any{
				"client_name": "metarouter", "application_type": "web", "token_endpoint_auth_method": "none", "response_types": []any{"code"},
				"redirect_uris": []any{"https://router.example/oauth/callback"}, "scope": "a offline_access",
				"grant_types": []any{"authorization_code", "refresh_token", deviceGrant}}},
		"device that the issuer lists": {Settings{}, func(i *Issuer) { i.Grants = []string{deviceGrant} }, Redirect{URI: home}, map[string]any{
			"client_name": "metarouter", "application_type": "native", "token_endpoint_auth_method": "none", "response_types": []any{"code"},
			"redirect_uris": []any{home}, "grant_types": []any{"authorization_code", "refresh_token", deviceGrant}}},
		"basic only": {Settings{}, func(i *Issuer) {
			i.AuthMethods = []string{"private_key_jwt", "client_secret_post", "client_secret_basic"}
		}, Redirect{URI: home}, map[string]any{
			"client_name": "metarouter", "application_type": "native", "token_endpoint_auth_method": "client_secret_basic", "response_types": []any{"code"},
			"redirect_uris": []any{home}, "grant_types": []any{"authorization_code", "refresh_token"}}},
	} {
		t.Run(name, func(t *testing.T) {
			issuer, asked, client := registrar(`201 {"client_id": "new", "client_secret": "s"}`)
			test.change(&issuer)
			_, err := Identify(t.Context(), client, Server{Settings: test.settings}, issuer, test.redirect, nil)
			expect.OK(t, err)
			expect.Deep(t, asked.asked[0].json, test.want, "registered")
		})
	}
}

func TestRegistrationAnswers(t *testing.T) {
	const badMetadata = `400 {"error": "invalid_client_metadata", "error_description": "no"}`
	for name, test := range map[string]struct {
		answers []string
		methods []string // that the issuer lists
		want    Client
		err     string
	}{
		"the issuer chooses":        {answers: []string{`201 {"client_id":"i","client_secret":"s","token_endpoint_auth_method":"client_secret_post","client_secret_expires_at":1900000000}`}, want: Client{ID: "i", Secret: "s", AuthMethod: "client_secret_post", Expires: time.Unix(1900000000, 0)}},
		"public, but with a secret": {answers: []string{`201 {"client_id":"i","client_secret":"s","token_endpoint_auth_method":"none"}`}, want: Client{ID: "i", AuthMethod: "none"}},
		"a secret, no method":       {answers: []string{`201 {"client_id":"i","client_secret":"s"}`}, want: Client{ID: "i", Secret: "s", AuthMethod: "client_secret_basic"}},
		"no secret, no method":      {answers: []string{`201 {"client_id":"i"}`}, methods: []string{"client_secret_basic"}, want: Client{ID: "i", AuthMethod: "none"}},
		"no way":                    {answers: []string{badMetadata}, err: `invalid_client_metadata (no)`},
		"a method without a secret": {answers: []string{`201 {"client_id":"i","token_endpoint_auth_method":"client_secret_basic"}`}, err: "no client_secret"},
		"an unknown method":         {answers: []string{`201 {"client_id":"i","token_endpoint_auth_method":"tls_client_auth"}`}, err: `"tls_client_auth"`},
		"only unknown methods":      {answers: []string{`201 {"client_id":"i"}`}, methods: []string{"private_key_jwt"}, err: `"privateKey": "…"`},
		"no ID":                     {answers: []string{`201 {"client_secret":"hunter2"}`}, err: "client_id"},
		"an ID of two lines":        {answers: []string{`201 {"client_id":"a\nb"}`}, err: "client_id"},
		"closed":                    {answers: []string{`403 <html>hunter2`}, err: `put "oauth": {"clientId": "…", "callbackPort": 1234} into the server's entry`},
		"refused":                   {answers: []string{`400 {"error":"invalid_redirect_uri"}`}, err: "redirect URI http://localhost:1234/callback"},
		"redirect":                  {answers: []string{`307 {"client_id":"i"}`}, err: "redirects"},
		"no JSON":                   {answers: []string{`201 hunter2`}, err: "not a JSON object"},
	} {
		t.Run(name, func(t *testing.T) {
			issuer, asked, client := registrar(test.answers...)
			issuer.AuthMethods = test.methods
			got, err := Identify(t.Context(), client, Server{}, issuer, Redirect{URI: home}, nil)
			if len(asked.asked) > 1 {
				t.Errorf("registered %d times", len(asked.asked))
			}
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) || strings.Contains(err.Error(), "hunter2") {
					t.Errorf("error %v, want %q", err, test.err)
				}
				return
			}
			test.want.RedirectURI, test.want.Registered = home, true
			if err != nil || !reflect.DeepEqual(got, test.want) {
				t.Errorf("%+v with secret %q (%v), want %+v", got, got.Secret, err, test.want)
			}
		})
	}
}

func TestIdentifySaysWhatToDo(t *testing.T) {
	issuer := Issuer{ID: "https://as.example"}
	_, err := Identify(t.Context(), http.DefaultClient, Server{}, issuer, Redirect{URI: home}, nil)
	for _, part := range []string{"https://as.example", "http://localhost:1234/callback", `"oauth": {"clientId": "…", "callbackPort": 1234}`} {
		expect.Error(t, err, part)
	}
	_, err = Identify(t.Context(), http.DefaultClient, Server{Settings: Settings{Grant: ClientCredentials}}, issuer, Redirect{}, nil)
	expect.Error(t, err, "clientSecret", "client_credentials without a client")
}

func TestEndpointsAreChecked(t *testing.T) {
	for _, endpoint := range []string{"", "javascript:alert(1)", "http://as.example/x", "ftp://127.0.0.1/", "https://", "/token", "https://u:p@as.example/"} {
		i := Issuer{ID: "https://as.example", TokenEndpoint: endpoint, DeviceEndpoint: endpoint, RevocationEndpoint: endpoint, RegistrationEndpoint: endpoint}
		g := &Grantor{HTTP: &http.Client{Transport: refusing{t}}, Issuer: i, Client: Client{ID: "me", AuthMethod: "none"}}
		_, errToken := g.Refresh(t.Context(), Token{Refresh: "R"})
		_, errDevice := g.StartDevice(t.Context(), nil)
		_, errRegister := Identify(t.Context(), g.HTTP, Server{}, i, Redirect{URI: home}, nil)
		errs := []error{errToken, errDevice, errRegister}
		if endpoint != "" {
			errs = append(errs, g.Revoke(t.Context(), Token{Access: "A"}))
		}
		expect.Equal(t, slices.Contains(errs, nil), false, "%q: %v", endpoint, errs)
	}
}

// refusing is a transport that must not be used.
type refusing struct{ t *testing.T }

func (r refusing) RoundTrip(req *http.Request) (*http.Response, error) {
	r.t.Errorf("%s was asked", req.URL)
	return nil, http.ErrServerClosed
}
