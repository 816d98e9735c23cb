package config

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
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

// checkIssuers reports what only all files together show of "oauth": without a public URL it
// lets no client in, and neither do issuers without profiles and rules of profiles that do not
// exist.
func checkIssuers(d *decoder, c Config) {
	h := c.Router.HTTP
	if len(h.Issuers) == 0 {
		return
	}
	d.source, d.name = d.oauth.source, "" // no server
	switch u, err := url.Parse(h.PublicURL); {
	case h.PublicURL == "":
		d.mistake(d.oauth.offset, `"oauth" lets no client in without "publicUrl": tokens must be issued for this address, and clients learn there where to log in; write "publicUrl": "https://tools.example.com" next to it, the address by which clients reach this router`)
	case err == nil && u.Scheme == "http" && !isLoopback(u.Hostname()):
		d.warn(d.oauth.offset, `"publicUrl" is not encrypted, so others on the way can take the access tokens of "oauth"; write an https URL, with "tlsCert" and "tlsKey" or a proxy with TLS in front of the router`)
	}
	for _, p := range d.issuers {
		d.source = p.source
		d.checkRules(p, c.Router.Profiles)
	}
}

// checkRules reports which users of an issuer get nothing, or more than was probably meant.
func (d *decoder) checkRules(p placedIssuer, profiles map[string]Profile) {
	for _, rule := range p.rules {
		if profileName().MatchString(rule.text) && !hasKey(profiles, rule.text) {
			d.mistake(rule.offset, "there is no profile %q, so this rule gives nothing; %s", rule.text, d.profileAdvice(rule.text, profiles))
		}
	}
	i := p.issuer
	switch {
	case i.URL == "": // its mistake was reported
	case len(i.Profiles) == 0 && len(i.Admins) == 0:
		d.warn(p.offset, `no user of this issuer is let in, since it has no "profiles"; write "profiles": {"*": %q} for a profile that all users get`, someProfile(profiles))
	case len(i.Profiles) == 0:
		d.warn(p.offset, `only the admins of this issuer are let in, since it has no "profiles"; write "profiles": {"*": %q} for a profile that all users get`, someProfile(profiles))
	}
	if slices.Contains(i.Admins, Claim{Name: "*"}) {
		d.warn(p.offset, `every user of this issuer is an admin whose token has the scope mcp:admin; write a claim that only admins have instead of "*", such as "admins": ["groups=ops"]`)
	}
}

// profileAdvice says what to write instead of the name of a profile that does not exist.
func (d *decoder) profileAdvice(name string, profiles map[string]Profile) string {
	if d.mistakes >= maxProblems {
		return "" // no one reads it
	}
	if like, ok := Similar(name, slices.Sorted(maps.Keys(profiles))); ok {
		return fmt.Sprintf("did you mean %q?", like)
	}
	return `write it into "profiles" of "metarouter", or name another one`
}

// someProfile returns the name of a profile to show as an example.
func someProfile(profiles map[string]Profile) string {
	for _, name := range []string{DefaultProfile, "everyone"} {
		if hasKey(profiles, name) {
			return name
		}
	}
	for name := range profiles {
		if len(profiles) == 1 {
			return name
		}
	}
	return "NAME"
}

// checkCertificates reports what only all files together show of "certificates": they need
// "clientCA", TLS of the router's own, profiles that exist, and names of their own. Entries
// whose profile does not exist lose their names.
func checkCertificates(d *decoder, r *Router) {
	h := &r.HTTP
	d.name = "" // no server
	if h.ClientCA != "" {
		d.source = d.clientCA.source
		if h.ClientCA != noFile {
			d.claim(d.clientCA.offset, claim{kind: claimClientCA, path: h.ClientCA})
		}
		if len(h.Certificates) == 0 {
			h.Certificates = []Certificate{{}} // clients were to prove something
			d.mistake(d.clientCA.offset, `"clientCA" lets no client in without "certificates"; write "certificates": {"CN=NAME": "PROFILE"}, with the subject of a certificate and the profile that its clients get`)
		}
		if h.TLSCert == "" {
			d.warn(d.clientCA.offset, `"clientCA" has no effect without TLS, since a proxy does not pass certificates on; write "tlsCert" and "tlsKey" next to it, so that clients connect to the router itself, or start it with --tls-cert and --tls-key`)
		}
	}
	if len(h.Certificates) > 0 && h.ClientCA == "" {
		d.source = d.certificatesAt.source
		d.mistake(d.certificatesAt.offset, `"certificates" lets no client in without "clientCA"; write "clientCA": "ca.pem", the PEM file of the certificates that sign those of clients`)
	}
	names := make(map[string]bool)
	for _, t := range h.Tokens {
		names[t.Name] = t.Name != ""
	}
	for _, p := range d.certificates {
		c := p.certificate
		if c.Name == "" {
			continue // its mistake was reported
		}
		d.source = p.source
		if c.Profile != "" && !hasKey(r.Profiles, c.Profile) {
			d.mistake(p.offset, `certificates with %q let no client in: there is no profile %q; %s`, c.Subject, c.Profile, d.profileAdvice(c.Profile, r.Profiles))
			if i := slices.IndexFunc(h.Certificates, func(other Certificate) bool { return other.Subject == c.Subject }); i >= 0 {
				h.Certificates[i].Name = ""
			}
		}
		if names[c.Name] {
			d.mistake(p.offset, `the name %q is already that of a token or of another certificate, so logs can't tell their clients apart; write {"name": "ANOTHER", "profile": %q}`, c.Name, c.Profile)
		}
		names[c.Name] = true
	}
}

// checkAudit reports an audit log that would not be a chain.
func checkAudit(d *decoder, c Config) {
	if a := c.Router.Audit; a.File != "" && !a.Off && a.File == c.Router.AccessLog.File {
		d.source, d.name = d.auditAt.source, ""
		d.mistake(d.auditAt.offset, `"audit" and "accessLog" can't be the same file; write another one, such as "audit.jsonl"`)
	}
}
