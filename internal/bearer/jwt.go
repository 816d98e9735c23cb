package bearer

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// algorithms are those by which tokens may be signed: all are asymmetric.
var algorithms = []jose.SignatureAlgorithm{
	jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512, jose.ES256, jose.ES384, jose.ES512, jose.EdDSA,
}

// types are the types of access tokens, in lower case.
var types = []string{"", "at+jwt", "application/at+jwt", "jwt"}

// A jwt is a token that says it is a signed JWT of an issuer. Nothing of it is verified.
type jwt struct {
	token     string
	algorithm jose.SignatureAlgorithm
	kid       string // "" if it names no key
	issuer    string
	issued    time.Time // as it says; zero if it does not
	came      time.Time
}

// parseJWT returns nil if the token is no signed JWT that names its issuer: then its issuer must
// be asked.
func parseJWT(token string) (*jwt, error) {
	parts := strings.SplitN(token, ".", 4)
	if len(parts) != 3 {
		return nil, nil
	}
	header, ok := decode(parts[0])
	if !ok || !bytes.HasPrefix(header, []byte("{")) {
		return nil, nil
	}
	fields, err := parseClaims(header)
	if err != nil || fields["alg"] == nil {
		return nil, invalid("its header is no JSON object that is usual for tokens")
	}
	payload, ok := decode(parts[1])
	if !ok {
		return nil, invalid("its payload is not base64url")
	}
	if _, ok := decode(parts[2]); !ok {
		return nil, invalid("its signature is not base64url")
	}
	j := &jwt{token: token, came: time.Now()}
	if err := j.readHeader(fields); err != nil {
		return nil, err
	}
	claims, err := parseClaims(payload)
	if err != nil {
		return nil, err
	}
	if isNull(claims["iss"]) {
		return nil, nil
	}
	if json.Unmarshal(claims["iss"], &j.issuer) != nil {
		return nil, invalid("its issuer (iss) is not text")
	}
	j.issued, _ = timeOf(claims, "iat") // a wrong one is refused later
	return j, nil
}

// decode decodes base64url. It is strict, so that a token has one text only.
func decode(part string) ([]byte, bool) {
	data, err := base64.RawURLEncoding.Strict().DecodeString(part)
	return data, err == nil
}

// readHeader refuses headers that a token may not have.
func (j *jwt) readHeader(fields map[string]json.RawMessage) error {
	// A key in the token, or a place that has one, would let anyone sign. An extension that is
	// critical must be understood, and we understand no extension.
	for _, name := range []string{"jku", "jwk", "x5u", "x5c", "crit", "b64"} {
		if _, ok := fields[name]; ok {
			return invalid("its header has %s, which is not accepted", name)
		}
	}
	var algorithm, typ string
	if json.Unmarshal(fields["alg"], &algorithm) != nil || !slices.Contains(algorithms, jose.SignatureAlgorithm(algorithm)) {
		return invalid("its algorithm is not accepted; sign it with RS256, ES256, EdDSA or another asymmetric algorithm")
	}
	if raw, ok := fields["typ"]; ok && json.Unmarshal(raw, &typ) != nil || !slices.Contains(types, strings.ToLower(typ)) {
		return invalid("its type (typ) is not that of an access token")
	}
	if raw, ok := fields["kid"]; ok && json.Unmarshal(raw, &j.kid) != nil {
		return invalid("its key (kid) is not text")
	}
	j.algorithm = jose.SignatureAlgorithm(algorithm)
	return nil
}

// verify verifies a token of this issuer, but for its audience.
func (i *issuer) verify(ctx context.Context, j *jwt) (*verified, error) {
	signed, err := jose.ParseSignedCompact(j.token, algorithms)
	if err != nil || len(signed.Signatures) != 1 {
		return nil, invalid("it is no signed JWT")
	}
	keys, err := i.keys.current(ctx)
	if err != nil {
		return nil, err
	}
	payload, key, err := keys.verify(ctx, i.turns, j, signed)
	// Twice, since a read that is under way may have begun before the issuer had the key.
	for n := 0; n < 2 && err == nil && key == nil && keys.mayBeNew(j); n++ {
		if keys, err = i.keys.renewed(ctx, keys, j); err == nil {
			payload, key, err = keys.verify(ctx, i.turns, j, signed)
		}
	}
	switch {
	case err != nil:
		return nil, err
	case key == nil:
		return nil, i.unsigned(keys, j)
	}
	claims, err := parseClaims(payload)
	if err != nil {
		return nil, err
	}
	t, err := newVerified(i, claims, true)
	if err != nil {
		return nil, err
	}
	t.key = &key.id
	return t, nil
}

// unsigned returns why no key of the set verifies the token.
func (i *issuer) unsigned(keys *keySet, j *jwt) error {
	if j.kid != "" && keys.names(j.kid) {
		return invalid("its signature is wrong")
	}
	if err := i.keys.outageError(); err != nil && keys.mayBeNew(j) {
		return err
	}
	return invalid("no key of its issuer verifies its signature")
}

// stranger refuses a token of another issuer.
func (v *Verifier) stranger(id string) error {
	if other, ok := strings.CutSuffix(id, "/"); v.issuers[other] != nil && ok || v.issuers[id+"/"] != nil {
		return invalid("its issuer is %s, which differs from the configured url by a slash at the end", shown(id))
	}
	return invalid("its issuer is %s, which this router does not know", shown(id))
}
