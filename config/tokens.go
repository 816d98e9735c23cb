package config

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/tailscale/hujson"

	"github.com/mcp-metarouter/metarouter/internal/lazy"
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
}

// The roles.
const (
	roleUse   = "use"
	roleAdmin = "admin"
)

// decode decodes a token: a string, or an object. After a mistake it is the zero value, so that it
// never lets more clients in.
func (t *Token) decode(d *decoder, at int, v hujson.Value) error {
	before := d.mistakes
	said := v
	o, isObject := v.Value.(*hujson.Object)
	if *t = (Token{Role: roleAdmin, Plain: true}); isObject {
		t.Role, t.Plain, said = roleUse, false, hujson.Value{}
		d.object(o, d.keys(t, fields{"token": func(m hujson.ObjectMember) { said = m.Value }}))
	}
	var err error
	switch {
	case said.Value == nil:
		d.mistake(at, `this token lets no client in: it has no "token"; write {"token": "${CI_TOKEN}", "name": "ci"} and set CI_TOKEN in the environment`)
	case !isObject && v.Value.Kind() == '[':
		return errors.New(nodeAt(d.level).Says)
	default:
		err = tokenText(d, t, said)
	}
	switch {
	case err != nil && !isObject:
		return err
	case err != nil:
		d.mistake(said.StartOffset, `"token" %v`, err)
	case !isObject && d.mistakes == before:
		d.examine(at, severityWarning, atPlainToken(t.Hash, recommended(*t, said.Value.(hujson.Literal).String())))
	}
	if d.mistakes > before {
		*t = Token{}
	}
	return nil
}

// tokenText reads the text of a token. The error is about the type of the value.
func tokenText(d *decoder, t *Token, v hujson.Value) error {
	switch s, missing, err := d.complete(v); {
	case err != nil:
		return err
	case d.env.asWritten && strings.Contains(s, "${"):
		t.Hash, _, _ = secret.ParseToken(s) // to be compared; the token itself is in the environment
	case missing.any():
		d.mistake(v.StartOffset, "this token lets no client in: %s", missing)
	case s == "":
		d.mistake(v.StartOffset, "an empty token lets no client in; write ${TOKEN} and set TOKEN in the environment")
	default:
		var ok bool
		if t.Hash, t.Text, ok = secret.ParseToken(s); ok {
			return nil
		}
		d.mistake(v.StartOffset, `this token lets no client in: after "sha256:" it needs 64 hexadecimal digits; make a token and its line with 'metarouter token new'`)
	}
	return nil
}

// Check says why the schema allows no such text at a place of the file, such as
// "metarouter.http.tokens.name"; nil if it does.
func Check(place, text string) error { return nodeAt(place).Fits(text) }

// isProfileName reports whether a profile can have the name.
func isProfileName(name string) bool { return Check(atToken+".profile", name) == nil }

func nameOfProfile(v hujson.Value) (string, error) { return nodeAt(atToken + ".profile").Word(v) }

// onlyVariable matches a text that holds a reference to a variable and nothing else.
var onlyVariable = lazy.Regexp(`^\$\{[A-Za-z0-9_:]+\}$`)

// recommended returns the object to write instead of a token that is a string. It has no secret
// that the string has.
func recommended(t Token, written string) string {
	switch {
	case onlyVariable().MatchString(written):
	case secret.IsShort(t.Text): // its hash would tell it
		written = "${CI_TOKEN}"
	default:
		written = secret.HashPrefix + t.Hash
	}
	return fmt.Sprintf(`{"token": %q, "name": "NAME", "role": "admin"}`, written)
}

// checkTokens reports mistakes that only all tokens and all files together show: tokens and names that
// are there twice, profiles that do not exist, and tokens that can be guessed although other
// machines may try.
func checkTokens(d *decoder, c Config) {
	host, _, _ := net.SplitHostPort(c.Router.HTTP.Addr)
	local := urls.IsLoopback(host)
	hashes, names := make(map[string]bool), make(map[string]bool)
	d.at(atToken)
	elements := d.last[atToken].elements()
	for i, t := range c.Router.HTTP.Tokens {
		if t.Hash == "" {
			continue
		}
		at := elements[i].StartOffset
		if t.Profile != "" && !hasKey(c.Router.Profiles, t.Profile) {
			d.mistake(at, `the token %s lets no client in: there is no profile %q; write it into "profiles", or name another one`, cmp.Or(t.Name, "without a name"), t.Profile)
		}
		if hashes[t.Hash] {
			d.mistake(at, "this token is here twice, and the first one counts; remove one")
		}
		if t.Name != "" && names[t.Name] {
			d.mistake(at, "two tokens are named %q, so logs can't tell their clients apart; write another name", t.Name)
		}
		if secret.IsShort(t.Text) && !local {
			d.mistake(at, "other machines reach %s, so a token needs at least %d characters; make one with 'metarouter token new'", c.Router.HTTP.Addr, secret.MinToken)
		}
		hashes[t.Hash], names[t.Name] = true, true
	}
}
