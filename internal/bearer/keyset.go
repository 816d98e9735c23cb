package bearer

import (
	"context"
	"crypto"
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
	maxUnnamed = 32 // keys that are tried for a token that names no key
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
	set = new(keySet)
	for _, raw := range document.Keys {
		if k, ok := parseKey(raw); ok {
			set.all = append(set.all, k)
		}
	}
	return set, len(document.Keys) - len(set.all), nil
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

// mayVerify reports whether the key may have signed the token. Whether a key of its kind can, go-jose knows.
func (k *key) mayVerify(j *jwt) bool {
	a := k.id.algorithm
	return (j.kid == "" || k.id.kid == j.kid) && (a == "" || a == string(j.algorithm) || a == "Ed25519" && j.algorithm == jose.EdDSA) // RFC 9864
}

// has reports whether the key is in the set.
func (s *keySet) has(id keyID) bool {
	return slices.ContainsFunc(s.all, func(k *key) bool { return k.id == id })
}

// names reports whether a key of the set has this name.
func (s *keySet) names(kid string) bool {
	return slices.ContainsFunc(s.all, func(k *key) bool { return k.id.kid == kid })
}

// follow notes which keys of the set before are gone: clients go on to send tokens of these for a
// while, which must not use up the reads for keys that are new.
func (s *keySet) follow(before *keySet) {
	s.gone = make(map[string]bool)
	if before == nil {
		return
	}
	if len(before.gone) < maxGone {
		maps.Copy(s.gone, before.gone)
	}
	for _, k := range before.all {
		s.gone[k.id.kid] = true
	}
}

// mayBeNew reports whether the token may be signed by a key that the issuer has since the set was
// read: it names a key that was never in the set, or names no key.
func (s *keySet) mayBeNew(j *jwt) bool {
	return j.kid == "" || !s.names(j.kid) && !s.gone[j.kid]
}

// turns bounds how many tokens are verified at once, which takes long: tokens that are made up
// leave half of the processors to other work.
type turns chan struct{}

func newTurns() turns { return make(turns, max(1, runtime.GOMAXPROCS(0)/2)) }

// verify returns the key that has signed the token; nil if no key did. It waits for its turn. The error comes from ctx.
func (s *keySet) verify(ctx context.Context, t turns, j *jwt) (*key, error) {
	select {
	case t <- struct{}{}:
		defer func() { <-t }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	left := maxUnnamed
	for _, k := range s.all {
		if left == 0 || !k.mayVerify(j) {
			continue
		}
		left--
		if _, err := j.signed.Verify(k.key); err == nil {
			return k, nil
		}
	}
	return nil, nil
}
