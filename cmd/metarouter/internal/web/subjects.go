package web

import (
	"crypto/x509"
	"slices"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/clientauth"
)

// A subject is the principal of client certificates with some attributes. It is plain data.
type subject struct {
	attributes []clientauth.Attribute
	hash       string // of the principal; "" lets no client in
}

// subjectsOf returns the subjects of the configuration. A mistake in one keeps its attributes, so
// that no less specific one takes its place.
func subjectsOf(r config.Router) []subject {
	var all []subject
	for _, c := range r.HTTP.Certificates {
		s := subject{attributes: c.Attributes}
		if _, exists := r.Profiles[c.Profile]; c.Name != "" && len(c.Attributes) > 0 && (c.Profile == "" || exists) {
			s.hash = hashOf(c)
		}
		all = append(all, s)
	}
	return all
}

// hashOf returns the hash of the principal of certificates. The order of the attributes does not
// matter.
func hashOf(c config.Certificate) string {
	parts := make([]string, len(c.Attributes))
	for i, a := range c.Attributes {
		parts[i] = a.Name + "=" + a.Value
	}
	slices.Sort(parts)
	return principalHash(append([]string{"certificate"}, parts...)...)
}

// find returns the hash of the principal of the most specific subject that a certificate matches, or why there is none.
func find(leaf *x509.Certificate, all []subject) (hash, why string) {
	most, why := 0, "no entry of http.certificates matches it; add one"
	for _, s := range all {
		n := len(s.attributes)
		switch {
		case n < most, n == 0, slices.ContainsFunc(s.attributes, func(a clientauth.Attribute) bool { return !a.In(leaf) }):
		case n == most:
			hash, why = "", "several entries of http.certificates match it that have as many parts; write one with more parts"
		case s.hash == "":
			most, hash, why = n, "", "the entry of http.certificates that matches it has a mistake; correct it"
		default:
			most, hash, why = n, s.hash, ""
		}
	}
	return hash, why
}
