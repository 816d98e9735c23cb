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
	signed    *jose.JSONWebSignature
	claims    map[string]json.RawMessage // of its payload
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
	for n, name := range []string{"payload", "signature"} {
		if _, ok := decode(parts[n+1]); !ok {
			return nil, invalid("its %s is not base64url", name)
		}
	}
	j := &jwt{came: time.Now()}
	if err := j.readHeader(fields); err != nil {
		return nil, err
	}
	if j.signed, err = jose.ParseSignedCompact(token, algorithms); err != nil {
		return nil, invalid("it is no signed JWT")
	}
	if j.claims, err = parseClaims(j.signed.UnsafePayloadWithoutVerification()); err != nil {
		return nil, err
	}
	if isNull(j.claims["iss"]) {
		return nil, nil
	}
	if json.Unmarshal(j.claims["iss"], &j.issuer) != nil {
		return nil, invalid("its issuer (iss) is not text")
	}
	j.issued, _ = timeOf(j.claims, "iat") // a wrong one is refused later
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
	var typ string
	if json.Unmarshal(fields["alg"], &j.algorithm) != nil || !slices.Contains(algorithms, j.algorithm) {
		return invalid("its algorithm is not accepted; sign it with RS256, ES256, EdDSA or another asymmetric algorithm")
	}
	if raw, ok := fields["typ"]; ok && json.Unmarshal(raw, &typ) != nil || !slices.Contains(types, strings.ToLower(typ)) {
		return invalid("its type (typ) is not that of an access token")
	}
	if raw, ok := fields["kid"]; ok && json.Unmarshal(raw, &j.kid) != nil {
		return invalid("its key (kid) is not text")
	}
	return nil
}

// verify verifies a token of this issuer, but for its audience.
func (i *issuer) verify(ctx context.Context, j *jwt, t turns) (*verified, error) {
	keys, err := i.keys.current(ctx)
	if err != nil {
		return nil, err
	}
	key, err := keys.verify(ctx, t, j)
	// Twice, since a read that is under way may have begun before the issuer had the key.
	for n := 0; n < 2 && err == nil && key == nil && keys.mayBeNew(j); n++ {
		if keys, err = i.keys.renewed(ctx, keys, j); err == nil {
			key, err = keys.verify(ctx, t, j)
		}
	}
	switch {
	case err != nil:
		return nil, err
	case key != nil:
		valid, err := newVerified(i, j.claims, true)
		if err != nil {
			return nil, genuine(err)
		}
		valid.key = &key.id
		return valid, nil
	case j.kid != "" && keys.names(j.kid):
		return nil, invalid("its signature is wrong")
	}
	if err := i.keys.outage(); err != nil && keys.mayBeNew(j) {
		return nil, err
	}
	return nil, invalid("no key of its issuer verifies its signature")
}
