package bearer

import "testing"

func TestAlgorithms(t *testing.T) {
	p := newIDP()
	for _, a := range algorithms {
		k := newKey("k-"+string(a), a)
		k.Algorithm = string(a)
		p.keys = append(p.keys, k)
	}
	v, _ := p.verifier(t, Issuer{})
	for i, a := range algorithms {
		token := sign(p.keys[i], a, nil, claims(nil))
		got, err := v.Verify(t.Context(), token, resource)
		if err != nil {
			t.Errorf("%s: %v", a, err)
			continue
		}
		if sub := got.Values("sub"); got.Issuer != idpURL || len(sub) != 1 || sub[0] != "u1" || len(got.Scopes) != 2 {
			t.Errorf("%s: the token is %+v", a, got)
		}
	}
	if n := p.count("/keys"); n != 1 {
		t.Errorf("%d requests for keys", n)
	}
}
