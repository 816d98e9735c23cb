package bearer

import (
	"fmt"
	"testing"

	"github.com/go-jose/go-jose/v4"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

// BenchmarkVerify verifies a token that is kept, and one that is not.
func BenchmarkVerify(b *testing.B) {
	for _, a := range []jose.SignatureAlgorithm{jose.RS256, jose.ES256, jose.EdDSA} {
		p := newIDP()
		k := newKey("bench", a)
		p.keys = []jose.JSONWebKey{newKey("other", a), k}
		v, _ := p.verifier(b, Issuer{})
		token := sign(k, a, nil, claims(object{"groups": []string{"devs", "ops"}, "realm_access": object{"roles": []string{"a", "b"}}}))
		for _, kept := range []bool{true, false} {
			b.Run(fmt.Sprintf("%s, kept %v", a, kept), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if !kept {
						v.kept = cache{}
					}
					_, err := v.Verify(b.Context(), token, resource)
					expect.OK(b, err)
				}
			})
		}
	}
}
