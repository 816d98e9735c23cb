package config

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/tailscale/hujson"

	"github.com/mcp-metarouter/metarouter/config/internal/keys"
	"github.com/mcp-metarouter/metarouter/internal/jsonc"
)

// An Issuer is an identity provider with access tokens that let HTTP clients in. The zero value
// stands for an issuer with a mistake: it lets no client in, and the router is not public
// because of it.
type Issuer struct {
	URL          string              `key:"url"`      // the issuer identifier, byte for byte as tokens name it in "iss"
	Audience     string              `key:"audience"` // that tokens must name in "aud"; "" is the URL of the MCP path that is asked for
	User         string              `key:"user"`     // the claim that names the user; default "sub"
	Profiles     []ProfileRule       // users get the profiles of all matching rules together; users without a matching rule are refused
	Admins       []Claim             `key:"admins"`        // users with a matching claim have the role admin
	Scopes       map[string][]string `key:"scopeMap,text"` // "scopeMap": the issuer's own scopes → mcp:read, mcp:call, mcp:admin; nil if absent
	KeysURL      string              `key:"jwksUrl"`       // "jwksUrl", where its keys are; "" is where its metadata say
	ClientID     string              `key:"clientId"`      // of the router at the issuer, for introspection and logins of the page; "" for no client
	ClientSecret string              `key:"clientSecret"`  // of ClientID; "" for a public client
	Secret       secretText          // gives ClientSecret; see [Config.WithSecrets]
	Introspect   bool                `key:"introspect"` // ask the issuer, as ClientID, about tokens that are no JWT
}

// A Claim is a property of a user in a token: "groups=devs". The name "*" without a value
// matches every user.
type Claim struct{ Name, Value string }

// A ProfileRule gives a profile to users. It gives nothing if there is no such profile.
type ProfileRule struct {
	Claim   Claim
	Profile string
}

const (
	maxWord  = 256  // bytes of a name of a claim, of a scope or of a client, and of the subject of a certificate
	maxValue = 1024 // bytes of a value of a claim, and of an issuer's URL, audience and secret
)

// issuersField returns the function that decodes "oauth" of "http".
func issuersField(d *decoder, to *[]Issuer) func(hujson.ObjectMember) {
	field := d.to(to)
	object := objectField(d, fields{"issuers": func(m hujson.ObjectMember) {
		field(m)
		list, ok := m.Value.Value.(*hujson.Array) // else *to is of another member
		seen := make(map[string]bool)
		for i, issuer := range *to {
			if ok && i < len(list.Elements) && seen[issuer.URL] && issuer.URL != "" {
				d.mistake(list.Elements[i].StartOffset, `this issuer is here twice; write one with all "profiles"`)
			}
			seen[issuer.URL] = true
		}
	}})
	return func(m hujson.ObjectMember) {
		before := d.mistakes
		object(m)
		if d.mistakes == before && !hasMember(m.Value, "issuers") {
			d.mistake(m.Name.StartOffset, `"oauth" has no issuers; write {"issuers": [{"url": "https://id.example.com"}]}, or remove it`)
		}
	}
}

// decode decodes an issuer. After a mistake it is the zero value.
func (i *Issuer) decode(d *decoder, at int, v hujson.Value) error {
	if !d.within(noIssuer, func() {
		o, ok := v.Value.(*hujson.Object)
		if !ok {
			d.mistake(at, "an issuer %s", nodeAt(d.level).Says)
			return
		}
		before := d.mistakes
		setDefaults(d.level, reflect.ValueOf(i).Elem())
		i.Secret = referring(d, at, &i.ClientSecret, func() {
			d.object(o, d.keys(i, fields{"profiles": profileRules(d, &i.Profiles)}))
		})
		hasSecret := i.ClientSecret != "" || i.Secret.text != ""
		switch {
		case d.mistakes > before:
		case i.URL == "":
			d.mistake(at, `it has no "url"; write {"url": "https://id.example.com"}, as the issuer's tokens name it in "iss"`)
		case i.Introspect && (i.ClientID == "" || !hasSecret):
			d.mistake(at, `"introspect" needs a client of the router at the issuer; write "clientId" and "clientSecret", or remove "introspect"`)
		case hasSecret && i.ClientID == "":
			d.warn(at, `"clientSecret" has no effect without the "clientId" that it belongs to; write that too`)
		}
	}) {
		*i = Issuer{}
	}
	return nil
}

func (c *Claim) decode(_ *decoder, _ int, v hujson.Value) error {
	s, err := keys.Text(v)
	if err == nil {
		*c, err = claimOf(s)
	}
	return err
}

// claimOf parses "NAME=VALUE", or "*".
func claimOf(s string) (Claim, error) {
	if s == "*" {
		return Claim{Name: "*"}, nil
	}
	name, value, ok := strings.Cut(s, "=")
	switch {
	case !ok || name == "" || value == "" || name == "*" || strings.TrimSpace(name) != name || strings.TrimSpace(value) != value:
		return Claim{}, errors.New(`must be NAME=VALUE, a claim and its value without spaces around them, or "*" for every user; write it like "groups=devs"`)
	case len(name) > maxWord || len(value) > maxValue:
		return Claim{}, fmt.Errorf("must have at most %d bytes before the = and %d after it", maxWord, maxValue)
	case strings.ContainsFunc(s, keys.Unprintable):
		return Claim{}, errors.New("must have printable characters only")
	}
	return Claim{name, value}, nil
}

// profileRules returns the function that decodes {"NAME=VALUE": "profile"}, and reports each mistake.
func profileRules(d *decoder, all *[]ProfileRule) func(hujson.ObjectMember) {
	return func(m hujson.ObjectMember) {
		*all = nil
		rules, err := membersOf(d.level, m.Value)
		if err != nil {
			d.mistake(m.Name.StartOffset, "%q %v", jsonc.Key(m), err)
		}
		seen := make(map[string]bool)
		for _, r := range rules {
			key := jsonc.Key(r)
			claim, err := claimOf(key)
			name, wrong := nameOfProfile(r.Value)
			if err = cmp.Or(err, wrong); seen[key] {
				err = errTwice
			}
			if seen[key] = true; err != nil {
				d.mistake(r.Name.StartOffset, "%q %v", jsonc.Key(m)+"."+key, err)
			}
			*all = append(*all, ProfileRule{claim, name})
		}
	}
}
