package config

import (
	"net/url"
	"slices"

	"github.com/tailscale/hujson"

	"github.com/mcp-metarouter/metarouter/config/internal/keys"
	"github.com/mcp-metarouter/metarouter/internal/clientauth"
	"github.com/mcp-metarouter/metarouter/internal/jsonc"
	"github.com/mcp-metarouter/metarouter/internal/safefile"
	"github.com/mcp-metarouter/metarouter/internal/urls"
)

// isPublic reports whether the router lets in clients of its own machine that prove nothing.
func (h HTTP) isPublic() bool {
	return len(h.Tokens) == 0 && len(h.Issuers) == 0 && len(h.Certificates) == 0
}

// Levels of "http" and of the objects in it.
const (
	atHTTP         = atRouter + ".http"
	atToken        = atHTTP + ".tokens"
	atIssuers      = atHTTP + ".oauth"
	atCertificates = atHTTP + ".certificates"
)

// checkIssuers reports mistakes in "oauth" that only all files together show.
func checkIssuers(d *decoder, c Config) {
	h := c.Router.HTTP
	if len(h.Issuers) == 0 {
		return
	}
	at := d.at(atIssuers)
	switch u, err := url.Parse(h.PublicURL); {
	case h.PublicURL == "":
		d.mistake(at, `"oauth" lets no client in without "publicUrl": tokens must be issued for this address, and clients learn there where to log in; write "publicUrl": "https://tools.example.com" next to it, the address by which clients reach this router`)
	case err == nil && u.Scheme == "http" && !urls.IsLoopback(u.Hostname()):
		d.warn(at, `"publicUrl" is not encrypted, so others on the way can take the access tokens of "oauth"; write an https URL, with "tlsCert" and "tlsKey" or a proxy with TLS in front of the router`)
	}
	for i, e := range d.last[atIssuers].inner("issuers").elements() {
		if i < len(h.Issuers) {
			checkRules(d, e, &h.Issuers[i], c.Router.Profiles)
		}
	}
}

const noIssuer = "this issuer lets no client in"

// checkRules reports which users of an issuer get nothing, or more than was probably meant.
func checkRules(d *decoder, v hujson.Value, i *Issuer, profiles map[string]Profile) {
	at, rules := v.StartOffset, sourceMember{member: hujson.ObjectMember{Value: v}}.inner("profiles")
	if o, ok := rules.member.Value.Value.(*hujson.Object); ok && i.URL != "" && !d.within(noIssuer, func() {
		for _, m := range o.Members {
			name, _ := keys.Text(m.Value)
			checkProfile(d, m.Name.StartOffset, name, profiles)
		}
	}) {
		*i = Issuer{}
	}
	switch {
	case i.URL == "": // its mistake was reported
	case len(i.Profiles) == 0:
		d.warn(at, `this issuer has no "profiles", so it lets no user in but "admins"; write "profiles": {"*": "NAME"} for a profile that all users get`)
	}
	if slices.Contains(i.Admins, Claim{Name: "*"}) {
		d.warn(at, `every user of this issuer is an admin whose token has the scope mcp:admin; write a claim that only admins have instead of "*", such as "admins": ["groups=ops"]`)
	}
}

// checkCertificates reports mistakes in "certificates" that only all files together show: they need
// "clientCA", TLS of the router's own, profiles that exist, and names of their own.
func checkCertificates(d *decoder, r *Router) {
	h := &r.HTTP
	if at := d.at(atHTTP + ".clientCA"); h.ClientCA != "" {
		d.examineFile(at, func() error { return checkAuthorities(h.ClientCA) }, `'metarouter serve --http' does not start with this "clientCA"`,
			"write the path of a PEM file with the certificates that sign those of clients")
		if len(h.Certificates) == 0 && d.refused == nil { // else a mistake in them may be reported
			d.mistake(at, `"clientCA" lets no client in without "certificates"; write "certificates": {"CN=NAME": "PROFILE"}, with the subject of a certificate and the profile that its clients get`)
		}
		if h.TLSCert == "" {
			d.warn(at, `"clientCA" has no effect without TLS, since a proxy does not pass certificates on; write "tlsCert" and "tlsKey" next to it, so that clients connect to the router itself, or start it with --tls-cert and --tls-key`)
		}
	}
	if at := d.at(atCertificates); len(h.Certificates) > 0 && h.ClientCA == "" {
		d.mistake(at, `"certificates" lets no client in without "clientCA"; write "clientCA": "ca.pem", the PEM file of the certificates that sign those of clients`)
	}
	names := make(map[string]bool)
	for _, t := range h.Tokens {
		names[t.Name] = t.Name != ""
	}
	o, ok := d.last[atCertificates].member.Value.Value.(*hujson.Object)
	if !ok {
		return
	}
	for _, m := range o.Members {
		i := slices.IndexFunc(h.Certificates, func(c Certificate) bool { return c.Name != "" && c.Subject == jsonc.Key(m) })
		if i < 0 {
			continue // its mistake was reported
		}
		c, at := &h.Certificates[i], m.Name.StartOffset
		if !d.within(noCertificate(c.Subject), func() {
			checkProfile(d, at, c.Profile, r.Profiles)
			if names[c.Name] {
				d.mistake(at, `the name %q is already that of a token or of another certificate; write {"name": "ANOTHER", "profile": %q}`, c.Name, c.Profile)
			}
		}) {
			c.Name = ""
		}
		names[c.Name] = c.Name != ""
	}
}

// checkTLS reports a certificate of the router without a key, or a key without a certificate.
func checkTLS(d *decoder, h HTTP) {
	last := atHTTP + ".tlsKey"
	if _, ok := d.last[last]; !ok {
		last = atHTTP + ".tlsCert"
	}
	if at := d.at(last); (h.TLSCert == "") != (h.TLSKey == "") {
		d.mistake(at, `"tlsCert" and "tlsKey" need each other; write both or neither`)
	} else if h.TLSCert != "" {
		d.examineFile(at, func() error { return checkPair(h.TLSCert, h.TLSKey) }, `'metarouter serve --http' does not start with this "tlsCert" and "tlsKey"`,
			"correct the paths: both files are PEM, and the key is that of the certificate")
	}
}

// checkLogs reports an audit log that would not be a chain, and logs that can't be written.
func checkLogs(d *decoder, r Router) {
	audit := r.Audit.File
	if r.Audit.Off {
		audit = ""
	}
	for _, log := range []struct{ key, file, example string }{{"accessLog", r.AccessLog.File, "access.log"}, {"audit", audit, "audit.jsonl"}} {
		if log.file == "" {
			continue
		}
		d.at(atRouter + "." + log.key)
		m := d.last[atRouter+"."+log.key]
		if file := m.inner("file"); file.source.path != "" {
			m = file
		}
		at := m.member.Value.StartOffset
		if log.key == "audit" && audit == r.AccessLog.File {
			d.mistake(at, `"audit" and "accessLog" can't be the same file; write another one, such as "audit.jsonl"`)
		}
		d.examineFile(at, func() error { return safefile.CanAppend(log.file) }, message("'metarouter serve' does not start with this %q", log.key),
			message("write the path of a file that may be created, such as %q: %q", log.key, log.example))
	}
}

// A Certificate lets clients in by the attributes of their certificates. The zero value matches no
// certificate.
type Certificate struct {
	Subject    string                 // such as "CN=build" or "DNS=build.example.com,O=Acme"
	Attributes []clientauth.Attribute // of Subject; a client's certificate must have all of them; nil matches no certificate
	Name       string                 `key:"name"`    // of the principal; default Subject. "" after a mistake: the matching certificates let no client in
	Profile    string                 `key:"profile"` // "" is no profile of its own
	Role       string                 `key:"role"`    // as in [Token]
	Rate       Rate                   `key:"rate"`    // of the requests with this certificate; the zero value is the rate of all clients
}

// certificatesField returns the function that decodes "certificates". After a mistake in an
// entry its certificates let no client in, also if a less specific entry would.
func certificatesField(d *decoder, to *[]Certificate) func(hujson.ObjectMember) {
	return set(d, to, func(v hujson.Value) (all []Certificate, err error) {
		seen := make(map[string]bool)
		members, err := membersOf(d.level, v)
		for _, m := range members {
			attributes, wrong := clientauth.Attributes(jsonc.Key(m))
			same := clientauth.CertificateIdentity(attributes)
			if wrong == nil && seen[same] {
				wrong = errTwice
			}
			if wrong != nil {
				return nil, misfitAt(m.Name.StartOffset, "."+jsonc.Key(m), wrong)
			}
			seen[same] = true
			all = append(all, certificateOf(d, m, attributes))
		}
		slices.SortStableFunc(all, func(a, b Certificate) int { return len(b.Attributes) - len(a.Attributes) })
		return all, err
	})
}

func noCertificate(subject string) string {
	return message("certificates with %q let no client in", subject)
}

// certificateOf reads the rights of clients with a certificate: a profile, or an object. After a
// mistake the certificate has no Name.
func certificateOf(d *decoder, m hujson.ObjectMember, attributes []clientauth.Attribute) Certificate {
	subject, at := jsonc.Key(m), d.level
	c := Certificate{Subject: subject, Attributes: attributes, Name: subject, Role: roleUse}
	d.level = keys.Below(at, "*")
	if !d.within(noCertificate(subject), func() {
		if o, ok := m.Value.Value.(*hujson.Object); ok {
			d.object(o, d.keys(&c, nil))
		} else if into(&c.Profile, nameOfProfile, m.Value) != nil {
			d.mistake(m.Name.StartOffset, `%q must be the name of a profile, or an object; write "work" or {"profile": "work"}`, subject)
		}
	}) {
		c.Name = ""
	}
	d.level = at
	return c
}
