package bearer

import (
	"crypto/sha256"
	"testing"

	"github.com/go-jose/go-jose/v4"
)

func benchmarked(b *testing.B, a jose.SignatureAlgorithm) (*Verifier, string) {
	p := newIDP()
	k := newKey("bench", a)
	p.keys = []jose.JSONWebKey{newKey("other", a), k}
	v, _ := p.verifier(b, Issuer{})
	token := sign(k, a, nil, claims(object{"groups": []string{"devs", "ops"}, "realm_access": object{"roles": []string{"a", "b"}}}))
	if _, err := v.Verify(b.Context(), token, resource); err != nil {
		b.Fatal(err)
	}
	return v, token
}

// BenchmarkFirst verifies a token that is not kept.
func BenchmarkFirst(b *testing.B) {
	for _, a := range []jose.SignatureAlgorithm{jose.RS256, jose.ES256, jose.EdDSA} {
		b.Run(string(a), func(b *testing.B) {
			v, token := benchmarked(b, a)
			b.ReportAllocs()
			for b.Loop() {
				v.kept.drop(sha256.Sum256([]byte(token)))
				if _, err := v.Verify(b.Context(), token, resource); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkCached verifies a token that is kept.
func BenchmarkCached(b *testing.B) {
	v, token := benchmarked(b, jose.RS256)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := v.Verify(b.Context(), token, resource); err != nil {
			b.Fatal(err)
		}
	}
}
