package config

import (
	"errors"
	"slices"

	"github.com/tailscale/hujson"

	"github.com/mcp-metarouter/metarouter/internal/clientcert"
	"github.com/mcp-metarouter/metarouter/internal/jsonc"
)

// A Certificate says whom client certificates with some attributes let in. The zero value
// matches none.
type Certificate struct {
	Subject    string                 // such as "CN=build" or "DNS=build.example.com,O=Acme"
	Attributes []clientcert.Attribute // of Subject; a client's certificate must have all of them, and nil matches none
	Name       string                 `key:"name"`    // of the principal; default Subject. "" after a mistake: what matches lets no client in
	Profile    string                 `key:"profile"` // "" is no profile of its own
	Role       Role                   `key:"role"`
	Rate       Rate                   `key:"rate"` // of the requests with this certificate; the zero value is that of all clients
}

// certificatesField returns the function that decodes "certificates". After a mistake in an
// entry its certificates let no client in, also if a less specific entry would. After a mistake
// in a subject none of the entries does, since it is not known which certificates are meant.
func certificatesField(d *decoder, to *[]Certificate) func(hujson.ObjectMember) {
	read := func(v hujson.Value) (all []Certificate, err error) {
		seen := make(map[string]bool)
		members, err := membersOf(d.level, v)
		for _, m := range members {
			attributes, wrong := clientcert.Attributes(jsonc.Key(m))
			same := clientcert.Identity(attributes)
			switch paths := guardsNamed(jsonc.Key(m), atCertificates); {
			case wrong != nil && len(paths) > 0:
				d.misplaced(d.guard(d.mistake, paths...), m, levelsOf(paths))
			case wrong == nil && seen[same]:
				wrong = errTwice
			}
			if wrong != nil {
				return nil, inside(m.Name.StartOffset, "."+jsonc.Key(m), wrong)
			}
			seen[same] = true
			all = append(all, certificateOf(d, m, attributes))
		}
		slices.SortStableFunc(all, func(a, b Certificate) int { return len(b.Attributes) - len(a.Attributes) })
		return all, err
	}
	return func(m hujson.ObjectMember) {
		*to = []Certificate{{}}
		set(d, to, read)(m)
	}
}

// certificateOf reads what clients with a certificate may do: a profile, or an object. After a
// mistake it has no Name.
func certificateOf(d *decoder, m hujson.ObjectMember, attributes []clientcert.Attribute) Certificate {
	subject := jsonc.Key(m)
	c := Certificate{Subject: subject, Attributes: attributes, Name: subject, Role: RoleUse}
	before, at := d.mistakes, d.level
	defer func() { d.level = at }()
	d.level = below(at, "*")
	switch value := m.Value.Value.(type) {
	case *hujson.Object:
		d.object(value, d.keys(&c, nil))
	default:
		set(d, &c.Profile, func(v hujson.Value) (string, error) {
			s, err := nameOfProfile(v)
			if err != nil {
				err = errors.New(`must be the name of a profile, or an object; write "work" or {"profile": "work"}`)
			}
			return s, err
		})(m)
	}
	if d.mistakes > before {
		d.mistake(m.Name.StartOffset, "certificates with %q let no client in because of mistakes in the entry; correct them", subject)
		c.Name = ""
	}
	return c
}
