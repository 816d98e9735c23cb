package bearer

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	_ "crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"

	"github.com/go-jose/go-jose/v4"
)

const (
	maxKeys    = 100
	maxUnnamed = 8 // keys that are tried for a token that names no key
	maxGone    = 1000
	minRSA     = 2048
)

// A keyID identifies a key with its use. With another algorithm it is another key.
type keyID struct {
	kid, algorithm string
	thumbprint     [32]byte
}

// A key verifies signatures.
type key struct {
	id  keyID
	key any // *rsa.PublicKey, *ecdsa.PublicKey or ed25519.PublicKey
}

// A keySet is the keys of an issuer at one time. It does not change.
type keySet struct {
	all  []*key
	ids  map[keyID]bool
	gone map[string]bool // names of keys that sets before had, and this one has not
}

// parseKeys reads a JWK Set (RFC 7517). It leaves out keys that can't verify tokens, and says how
// many. A set without keys is one: all were removed.
func parseKeys(data []byte) (set *keySet, left int, err error) {
	var document struct {
		Keys []json.RawMessage `json:"keys"`
	}
	switch err := json.Unmarshal(data, &document); {
	case err != nil || document.Keys == nil:
		return nil, 0, errors.New("they are no JSON Web Key Set")
	case len(document.Keys) > maxKeys:
		return nil, 0, fmt.Errorf("they are %d, more than %d", len(document.Keys), maxKeys)
	}
	set = &keySet{ids: map[keyID]bool{}}
	for _, raw := range document.Keys {
		k, ok := parseKey(raw)
		if !ok {
			left++
			continue
		}
		set.all = append(set.all, k)
		set.ids[k.id] = true
	}
	return set, left, nil
}

// parseKey reads a key. It reports false if it can't verify tokens.
func parseKey(raw json.RawMessage) (*key, bool) {
	var parsed jose.JSONWebKey
	var more struct {
		Operations []string `json:"key_ops"`
	}
	if json.Unmarshal(raw, &parsed) != nil || json.Unmarshal(raw, &more) != nil {
		return nil, false
	}
	if !parsed.Valid() || !parsed.IsPublic() || !isStrong(parsed.Key) ||
		parsed.Use != "" && parsed.Use != "sig" ||
		more.Operations != nil && !slices.Contains(more.Operations, "verify") {
		return nil, false
	}
	thumbprint, err := parsed.Thumbprint(crypto.SHA256)
	if err != nil {
		return nil, false
	}
	return &key{keyID{parsed.KeyID, parsed.Algorithm, [32]byte(thumbprint)}, parsed.Key}, true
}

func isStrong(k any) bool {
	r, ok := k.(*rsa.PublicKey)
	return !ok || r.N.BitLen() >= minRSA && r.E >= 3 && r.E%2 == 1
}

// fits reports whether the key may verify signatures of the algorithm.
func (k *key) fits(a jose.SignatureAlgorithm) bool {
	if k.id.algorithm != "" && k.id.algorithm != string(a) && !(a == jose.EdDSA && k.id.algorithm == "Ed25519") { // RFC 9864
		return false
	}
	switch public := k.key.(type) {
	case *rsa.PublicKey:
		return slices.Contains([]jose.SignatureAlgorithm{jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512}, a)
	case *ecdsa.PublicKey:
		return a == map[int]jose.SignatureAlgorithm{256: jose.ES256, 384: jose.ES384, 521: jose.ES512}[public.Curve.Params().BitSize]
	case ed25519.PublicKey:
		return a == jose.EdDSA
	}
	return false
}

// follow notes which keys of the set before are gone: clients go on to send tokens of these for a
// while, which must not use up the reads for keys that are new.
func (s *keySet) follow(before *keySet) {
	s.gone = map[string]bool{}
	if before == nil {
		return
	}
	maps.Copy(s.gone, before.gone)
	for _, k := range before.all {
		if len(s.gone) < maxGone {
			s.gone[k.id.kid] = true
		}
	}
	for _, k := range s.all {
		delete(s.gone, k.id.kid)
	}
}

// has reports whether the key is in the set.
func (s *keySet) has(id keyID) bool { return s.ids[id] }

// candidates returns the keys that may have signed the token.
func (s *keySet) candidates(j *jwt) []*key {
	var all []*key
	for _, k := range s.all {
		if (j.kid == "" || k.id.kid == j.kid) && k.fits(j.algorithm) && len(all) < maxUnnamed {
			all = append(all, k)
		}
	}
	return all
}

// mayBeNew reports whether the token may be signed by a key that the issuer has since the set was
// read: it names a key that was never in the set, or names no key.
func (s *keySet) mayBeNew(j *jwt) bool {
	return j.kid == "" || !s.names(j.kid) && !s.gone[j.kid]
}

// names reports whether a key of the set has this name.
func (s *keySet) names(kid string) bool {
	return slices.ContainsFunc(s.all, func(k *key) bool { return k.id.kid == kid })
}

// turns bounds how many tokens are verified at once, which takes long: tokens that are made up
// leave half of the processors to other work.
type turns chan struct{}

func newTurns() turns { return make(turns, max(1, runtime.GOMAXPROCS(0)/2)) }

// verify returns the payload of the token and the key that signed it; nil if no key did. It waits
// for its turn. The error comes from ctx.
func (s *keySet) verify(ctx context.Context, t turns, j *jwt, signed *jose.JSONWebSignature) ([]byte, *key, error) {
	candidates := s.candidates(j)
	if len(candidates) == 0 {
		return nil, nil, nil
	}
	select {
	case t <- struct{}{}:
		defer func() { <-t }()
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
	for _, k := range candidates {
		if payload, err := signed.Verify(k.key); err == nil {
			return payload, k, nil
		}
	}
	return nil, nil, nil
}
