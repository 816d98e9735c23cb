package web

import (
	"crypto/x509"
	"slices"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/clientauth"
	"github.com/mcp-metarouter/metarouter/internal/plain"
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

// A match is the decision of the configuration about a certificate.
type match int

const (
	unknown   match = iota // no subject matches
	ambiguous              // several match that are equally specific
	refused                // the subject lets no client in, because of a mistake
	known
)

// find returns the hash of the principal of the most specific subject that a certificate matches.
func find(leaf *x509.Certificate, all []subject) (hash string, m match) {
	most := 0
	for _, s := range all {
		n := len(s.attributes)
		switch {
		case n < most, n == 0, slices.ContainsFunc(s.attributes, func(a clientauth.Attribute) bool { return !a.In(leaf) }):
		case n == most:
			hash, m = "", ambiguous
		case s.hash == "":
			most, hash, m = n, "", refused
		default:
			most, hash, m = n, s.hash, known
		}
	}
	return hash, m
}

// describe names the certificate for a log.
func describe(leaf *x509.Certificate) string {
	const most = 200 // characters
	text := []rune(plain.Line(leaf.Subject.String()))
	return string(text[:min(len(text), most)])
}
