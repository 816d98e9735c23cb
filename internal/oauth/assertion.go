package oauth

import (
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// The ways in which a client says who it is at the token endpoint.
const (
	authNone  = "none"
	authBasic = "client_secret_basic"
	authPost  = "client_secret_post"
	authJWT   = "private_key_jwt"
)

const assertionLife = time.Minute

// authenticate puts who the client is into a request: into its form or its header.
func (g *Grantor) authenticate(form url.Values, header http.Header) error {
	switch method := g.Client.AuthMethod; method {
	case authBasic:
		// RFC 6749, section 2.3.1: encoded as in a form, and then as HTTP has it.
		req := http.Request{Header: header}
		req.SetBasicAuth(url.QueryEscape(g.Client.ID), url.QueryEscape(g.Client.Secret))
	case authPost:
		form.Set("client_id", g.Client.ID)
		form.Set("client_secret", g.Client.Secret)
	case authNone, "":
		form.Set("client_id", g.Client.ID)
	case authJWT:
		assertion, err := g.assertion()
		if err != nil {
			return fmt.Errorf("sign who the client %q is: %w", oneLine(g.Client.ID), err)
		}
		form.Set("client_id", g.Client.ID)
		form.Set("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer")
		form.Set("client_assertion", assertion)
	default:
		return fmt.Errorf("the client %q is to identify itself with %q, which is not known here", oneLine(g.Client.ID), shorten(method, 64))
	}
	return nil
}

// assertion returns a JWT that says who the client is (RFC 7523, section 3). Its only audience is
// the issuer's identifier, so that no other issuer can use it. It is signed with the algorithm of the
// settings, else with the first that fits the key, of those that the issuer lists before others.
func (g *Grantor) assertion() (string, error) {
	key, err := parseKey(g.Settings.PrivateKey)
	if err != nil {
		return "", err
	}
	options := (&jose.SignerOptions{}).WithType("JWT")
	if g.Settings.KeyID != "" {
		options = options.WithHeader("kid", g.Settings.KeyID)
	}
	now := time.Now()
	claims := map[string]any{
		"iss": g.Client.ID, "sub": g.Client.ID, "aud": g.Issuer.ID, "jti": rand.Text(),
		"iat": now.Unix(), "nbf": now.Unix(), "exp": now.Add(assertionLife).Unix(),
	}
	wanted := g.Settings.Algorithm
	isUnlisted := func(a jose.SignatureAlgorithm) bool { return !slices.Contains(g.Issuer.SigningAlgorithms, string(a)) }
	tried := append(slices.DeleteFunc(slices.Clone(algorithms), isUnlisted), algorithms...)
	if wanted != "" {
		tried = []jose.SignatureAlgorithm{jose.SignatureAlgorithm(wanted)}
	}
	for _, algorithm := range tried {
		signer, err := jose.NewSigner(jose.SigningKey{Algorithm: algorithm, Key: key}, options)
		if err != nil { // the key is of another kind
			continue
		}
		if signed, err := jwt.Signed(signer).Claims(claims).Serialize(); err == nil { // else it has another curve
			return signed, nil
		}
	}
	if wanted != "" {
		return "", fmt.Errorf(`the "algorithm" %q does not fit the "privateKey"`, shorten(wanted, 64))
	}
	return "", errors.New(`no known algorithm signs with the "privateKey": use RSA, P-256, P-384, P-521 or Ed25519`)
}

// algorithms are those by which assertions are signed, the usual ones first.
var algorithms = []jose.SignatureAlgorithm{
	jose.RS256, jose.ES256, jose.EdDSA, jose.ES384, jose.ES512, jose.PS256, jose.RS384, jose.PS384, jose.RS512, jose.PS512,
}

// parseKey reads a private key in PEM: PKCS#8, PKCS#1 or SEC 1. The errors do not quote it.
func parseKey(text string) (crypto.Signer, error) {
	if !strings.Contains(text, "\n") {
		text = strings.ReplaceAll(text, `\n`, "\n") // as variables of the environment often have it
	}
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return nil, errors.New(`the "privateKey" is not in PEM (a text that begins with -----BEGIN PRIVATE KEY-----)`)
	}
	if !slices.Contains([]string{"PRIVATE KEY", "RSA PRIVATE KEY", "EC PRIVATE KEY"}, block.Type) {
		return nil, errors.New(`the "privateKey" is PEM, but not of a private key without a password (PRIVATE KEY, RSA PRIVATE KEY, EC PRIVATE KEY)`)
	}
	if key, err := x509.ParsePKCS1PrivateKey(block.Bytes); err == nil {
		return key, nil
	}
	if key, err := x509.ParseECPrivateKey(block.Bytes); err == nil {
		return key, nil
	}
	key, _ := x509.ParsePKCS8PrivateKey(block.Bytes)
	if signer, ok := key.(crypto.Signer); ok {
		return signer, nil
	}
	return nil, errors.New(`the "privateKey" can't be read: it is damaged, encrypted, or of a kind that does not sign`)
}
