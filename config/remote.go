package config

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/tailscale/hujson"

	"github.com/mcp-metarouter/metarouter/internal/jsonc"
	"github.com/mcp-metarouter/metarouter/internal/reference"
	"github.com/mcp-metarouter/metarouter/internal/urls"
)

// An OAuth is the "oauth" object of an entry in Claude Code's dialect: how to log in to the
// server.
type OAuth struct {
	ClientID              string   `key:"clientId"`              // registered by hand; "" registers a client
	CallbackPort          int      `key:"callbackPort"`          // on which the log-in comes back; 0 is any free one, and the port of a CallbackURL of this machine is set here
	AuthServerMetadataURL string   `key:"authServerMetadataUrl"` // where the authorization server describes itself; "" finds it
	Scopes                []string `key:"scopes scope,text"`     // to ask for; nil is those that the server names

	// The others are metarouter's own.
	ClientSecret      string `key:"clientSecret"`            // of ClientID; may be a reference to a secret
	PrivateKey        string `key:"privateKey"`              // of ClientID, in PEM; may be a reference to a secret
	KeyID             string `key:"keyId"`                   // of PrivateKey; "" sends no ID
	Algorithm         string `key:"algorithm"`               // of PrivateKey, such as "ES256"; "" is the usual one for the key
	CallbackURL       string `key:"callbackUrl redirectUri"` // at which the log-in comes back; "" is CallbackPort of this machine. Kiro and Gemini have the other key
	ClientMetadataURL string `key:"clientMetadataUrl"`       // of a client ID metadata document; "" without one
	Resource          string // the resource parameter; "" is the server's identifier
	NoResource        bool   // send no resource parameter ("resource": false)
	Grant             string `key:"grant"` // "authorization_code", "client_credentials" or "device_code"; "" is the first
}

// secrets returns the secrets of o, which may be nil.
func (o *OAuth) secrets() []string {
	if o == nil {
		return nil
	}
	return slices.DeleteFunc([]string{o.ClientSecret, o.PrivateKey}, func(s string) bool { return s == "" })
}

func (o *OAuth) decode(d *decoder, at int, v hujson.Value) error {
	*o = OAuth{}
	d.objectAt(at, v, d.keys(o, fields{"resource": resourceField(d, o)}))
	checkOAuth(d, o, at)
	return nil
}

const ( // values of "grant"
	clientCredentials = "client_credentials"
	deviceCode        = "device_code"
)

// checkOAuth reports settings that do not fit together. The port of a callback URL of this
// machine is the one to listen on.
func checkOAuth(d *decoder, o *OAuth, at int) {
	if u, err := url.Parse(o.CallbackURL); err == nil && o.CallbackPort == 0 && urls.IsLoopback(u.Hostname()) {
		o.CallbackPort, _ = strconv.Atoi(u.Port()) // "" is 0
	}
	secret := o.ClientSecret != "" || o.PrivateKey != ""
	switch {
	case d.missing.any():
	case o.Grant == clientCredentials && (o.ClientID == "" || !secret):
		d.mistake(at, `"grant": "client_credentials" needs a client of its own; write "clientId", and "clientSecret" or "privateKey", into "oauth"`)
	case o.ClientSecret != "" && o.PrivateKey != "":
		d.warn(at, `"clientSecret" has no effect next to "privateKey"; remove one of them`)
	case secret && o.ClientID == "":
		d.warn(at, `"clientSecret" and "privateKey" have no effect without the "clientId" that they belong to; write that too`)
	}
}

// resourceField reads a resource parameter, or false.
func resourceField(d *decoder, o *OAuth) func(hujson.ObjectMember) {
	return func(m hujson.ObjectMember) {
		if o.NoResource = m.Value.Value.Kind() == 'f'; o.NoResource {
			o.Resource = ""
			return
		}
		set(d, &o.Resource, func(v hujson.Value) (string, error) {
			if v.Value.Kind() != '"' {
				return "", errors.New(`must be a URI, or false to send no resource parameter; write "https://host/path"`)
			}
			return d.text(nodeAt(d.level), v)
		})(m)
	}
}

// checkLogin reports an "oauth" that no request uses.
func (d entryDecoder) checkLogin(s *Server, o *hujson.Object) {
	if m, _ := jsonc.Member(o, "oauth"); s.OAuth != nil && s.hasAuthorization() {
		d.warn(m.Name.StartOffset, `"oauth" has no effect, since "headers" has an "Authorization" of its own; remove one of them`)
	}
}

func (s *Server) hasAuthorization() bool {
	for name := range s.Headers {
		if http.CanonicalHeaderKey(name) == "Authorization" {
			return true
		}
	}
	return false
}

// An Exchange says what the access token of a user is exchanged for. Each value may be "" or nil, and is left out then.
type Exchange struct {
	Type     string   `key:"type" json:",omitempty"` // "access_token" or "id-jag"; "" is the first
	Audience string   `key:"audience"`
	Resource string   `key:"resource"`
	Scopes   []string `key:"scope,text"`
}

func (e *Exchange) decode(d *decoder, _ int, v hujson.Value) error {
	o, ok := v.Value.(*hujson.Object)
	if !ok {
		return errors.New(nodeAt(d.level).Says)
	}
	*e = Exchange{}
	d.object(o, d.keys(e, nil))
	return nil
}

// checkCredentials notes that each user logs in to the server, or gets a token in exchange. A mistake must not have users share one login.
func (d entryDecoder) checkCredentials(s *Server, keys entryKeys, o *hujson.Object) {
	m, exchanges := jsonc.Member(o, "exchange")
	if s.PerUser = keys.Credentials == "user" && !exchanges; !s.PerUser && !exchanges {
		return
	} else if keys.Credentials != "user" {
		d.mistake(m.Name.StartOffset, `"exchange" gives each user a token of their own; write "credentials": "user" next to it, or remove it`)
		return // it does not run
	}
	m, _ = jsonc.Member(o, "credentials")
	at := m.Name.StartOffset
	if s.hasAuthorization() {
		d.mistake(at, `"credentials": "user" has no effect next to an "Authorization" in "headers"; remove one of them`)
	}
	switch {
	case keys.Helper != "":
		d.mistake(at, `"credentials": "user" and "headersHelper" exclude each other, since all users would share an "Authorization" that the command prints; remove one of them`)
	case s.Transport == Stdio:
		d.mistake(at, `"credentials": "user" works only for a remote server, since one process of a stdio server serves all users; remove it, or write "url"`)
	case s.Service != "":
		d.mistake(at, `"credentials": "user" and "service" exclude each other, since such a server is not shared with other nodes; remove one of them`)
	case exchanges && s.Exchange != nil && s.Exchange.Type == "id-jag" && (s.OAuth == nil || s.OAuth.ClientID == ""):
		d.mistake(at, `"type": "id-jag" needs the router's client at the server's issuer; write "oauth": {"clientId": …, "clientSecret": …} next to "exchange"`)
	case exchanges: // the login is for lists alone
	case s.OAuth != nil && s.OAuth.Grant == clientCredentials:
		d.mistake(at, `"credentials": "user" needs a login of each user, and "grant": "client_credentials" has none; remove one of them`)
	case s.OAuth != nil && s.OAuth.Grant == deviceCode:
		d.mistake(at, `"credentials": "user" and "grant": "device_code" exclude each other, since a code entered by someone else would give their account to the user who asked for it; remove one of them`)
	}
}

// checkUserValues reports values of users in places that all users share.
func (d entryDecoder) checkUserValues(s *Server, at int) {
	for _, r := range d.references {
		if !r.Personal() {
			continue
		}
		shared := strings.Join(append(s.OAuth.secrets(), s.URL), " ")
		switch {
		case s.Transport == Stdio:
			d.mistake(at, `%s works only for a remote server, since one process of a stdio server serves all users; write ${keyring:NAME}`, short(r.Text))
		case s.Service != "":
			d.mistake(at, `%s and "service" exclude each other, since such a server is not shared with other nodes; remove one of them`, short(r.Text))
		case strings.Contains(shared, r.Text):
			d.mistake(at, `%s works only in "headers", which each user's requests have; write ${keyring:NAME} elsewhere`, short(r.Text))
		}
	}
}

// help notes the command that prints the headers of a remote server. The value that it prints
// is a secret.
func (d entryDecoder) help(s *Server, command string, at int) {
	switch {
	case command == "" || s.Transport == "":
	case s.Transport == Stdio:
		d.warn(at, `"headersHelper" has no effect, since a stdio server has no headers`)
	case len(command) > reference.MaxCommand:
		d.mistake(at, `"headersHelper" is longer than %d bytes; write a script and name that`, reference.MaxCommand)
	default:
		d.references = append(d.references, reference.Reference{Text: "headersHelper", Kind: reference.Headers, Body: command, Dir: d.source.project()})
	}
}
