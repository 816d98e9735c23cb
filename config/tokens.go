package config

import (
	"cmp"
	"net"
	"strings"

	"github.com/tailscale/hujson"

	"github.com/mcp-metarouter/metarouter/internal/secret"
	"github.com/mcp-metarouter/metarouter/internal/urls"
)

// A Token proves the identity of HTTP clients. The zero value lets no client in.
type Token struct {
	Hash    string // SHA-256 of the token, 64 hex digits in lower case; "" is no token at all
	Name    string `key:"name"`    // of the principal; "" if the file gives no name
	Profile string `key:"profile"` // "" is no profile of its own
	Role    string `key:"role"`    // "use" (or "": the tools of the profile) or "admin" (also the page's actions, calls of others and restarts)
	Rate    Rate   `key:"rate"`    // of the requests with this token; the zero value is the rate of all clients
	Plain   bool   // the file has the token as a string instead of an object
	Text    string `json:"-"` // the token itself; "" if only its hash is known

	Secret secretText `json:"-"` // gives Hash and Text; see [Config.WithSecrets]
}

// The roles.
const (
	roleUse   = "use"
	roleAdmin = "admin"
)

const noToken = "this token lets no client in"

// decode decodes a token: a string, or an object. After a mistake it is the zero value.
func (t *Token) decode(d *decoder, at int, v hujson.Value) error {
	said := v
	o, isObject := v.Value.(*hujson.Object)
	*t = Token{Role: roleAdmin, Plain: true}
	if !d.within(noToken, func() {
		if isObject {
			t.Role, t.Plain, said = roleUse, false, hujson.Value{StartOffset: at}
			d.object(o, d.keys(t, fields{"token": func(m hujson.ObjectMember) { said = m.Value }}))
		} else if v.Value.Kind() != '"' {
			d.mistake(at, "a token %s", nodeAt(d.level).Says)
			return
		}
		tokenText(d, t, said)
	}) {
		*t = Token{}
	}
	return nil
}

// tokenText reads the text of a token.
func tokenText(d *decoder, t *Token, v hujson.Value) {
	if v.Value == nil {
		d.mistake(v.StartOffset, `it has no "token"; write {"token": "${CI_TOKEN}", "name": "ci"} and set CI_TOKEN in the environment`)
		return
	}
	var s string
	var missing variables
	var err error
	t.Secret = referring(d, v.StartOffset, &s, func() {
		d.referable = true
		s, missing, err = d.complete(v)
		d.referable = false
	})
	ok := true
	switch {
	case err != nil:
		d.mistake(v.StartOffset, `"token" %v`, err)
	case d.env.asWritten && strings.Contains(s, "${"):
		t.Hash = s // to be compared; the token itself is in the environment
	case missing.any():
		d.mistake(v.StartOffset, "%s", missing)
	case t.Secret.text != "": // its value comes later
	case s == "":
		d.mistake(v.StartOffset, "an empty token proves nothing; write ${TOKEN} and set TOKEN in the environment")
	default:
		t.Hash, t.Text, ok = secret.ParseToken(s)
	}
	if !ok {
		d.mistake(v.StartOffset, `a token needs 64 hexadecimal digits after "sha256:"; make a token and its line with 'metarouter token new'`)
	}
}

// Check says why the schema allows no such text at a place of the file, such as
// "metarouter.http.tokens.name"; nil if it does.
func Check(place, text string) error { return nodeAt(place).Fits(text) }

func nameOfProfile(v hujson.Value) (string, error) { return nodeAt(atToken + ".profile").Word(v) }

// checkTokens reports mistakes that only all tokens and all files together show: tokens and names that
// are there twice, profiles that do not exist, and tokens that can be guessed although other
// machines may try.
func checkTokens(d *decoder, c Config) {
	host, _, _ := net.SplitHostPort(c.Router.HTTP.Addr)
	local := urls.IsLoopback(host)
	seen, names := make(map[string]bool), make(map[string]bool)
	d.at(atToken)
	elements := d.last[atToken].elements()
	for i := range c.Router.HTTP.Tokens {
		t := &c.Router.HTTP.Tokens[i]
		same := cmp.Or(t.Hash, t.Secret.text)
		if same == "" || i >= len(elements) {
			continue // its mistake was reported
		}
		at := elements[i].StartOffset
		if !d.within(noToken, func() {
			checkProfile(d, at, t.Profile, c.Router.Profiles)
			if seen[same] {
				d.mistake(at, "it is here twice; remove one")
			}
			if t.Name != "" && names[t.Name] {
				d.mistake(at, "two tokens are named %q; write another name", t.Name)
			}
			if secret.IsShort(t.Text) && !local {
				d.mistake(at, "other machines reach %s and a token needs at least %d characters; make one with 'metarouter token new'", c.Router.HTTP.Addr, secret.MinToken)
			}
		}) {
			*t = Token{}
		} else if t.Plain {
			d.examined(at, severityWarning, `this token has no name, and its clients may use the page's actions too`,
				`write {"token": "${CI_TOKEN}", "name": "NAME", "role": "admin"}, or "role": "use" for clients that only use tools`)
		}
		seen[same], names[t.Name] = true, true
	}
}
