package oauth

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
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
// the issuer's identifier, so that no other issuer can use it.
func (g *Grantor) assertion() (string, error) {
	key, err := parseKey(g.Settings.PrivateKey)
	if err != nil {
		return "", err
	}
	algorithm, err := chooseAlgorithm(key, g.Settings.Algorithm, g.Issuer.SigningAlgorithms)
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
	signed := ""
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: algorithm, Key: key}, options)
	if err == nil {
		signed, err = jwt.Signed(signer).Claims(claims).Serialize()
	}
	if err != nil {
		return "", fmt.Errorf("the key can't sign with %s", algorithm)
	}
	return signed, nil
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
	parse, known := map[string]func([]byte) (any, error){
		"PRIVATE KEY":     x509.ParsePKCS8PrivateKey,
		"RSA PRIVATE KEY": func(der []byte) (any, error) { return x509.ParsePKCS1PrivateKey(der) },
		"EC PRIVATE KEY":  func(der []byte) (any, error) { return x509.ParseECPrivateKey(der) },
	}[block.Type]
	if !known {
		return nil, errors.New(`the "privateKey" is PEM, but not of a private key without a password (PRIVATE KEY, RSA PRIVATE KEY, EC PRIVATE KEY)`)
	}
	key, err := parse(block.Bytes)
	signer, ok := key.(crypto.Signer)
	if err != nil || !ok {
		return nil, errors.New(`the "privateKey" can't be read: it is damaged, encrypted, or of a kind that does not sign`)
	}
	return signer, nil
}

// chooseAlgorithm returns the algorithm to sign with: the wanted one if the key has it, else the
// first of the key's that the issuer lists, else the first of the key's.
func chooseAlgorithm(key crypto.Signer, wanted string, listed []string) (jose.SignatureAlgorithm, error) {
	all := algorithmsOf(key)
	if len(all) == 0 {
		return "", errors.New(`no known algorithm signs with the "privateKey": use RSA, P-256, P-384, P-521 or Ed25519`)
	}
	if wanted != "" {
		listed = []string{wanted}
	}
	first := slices.IndexFunc(all, func(a jose.SignatureAlgorithm) bool { return slices.Contains(listed, string(a)) })
	if first < 0 && wanted != "" {
		return "", fmt.Errorf(`the "algorithm" %q does not fit the "privateKey": it signs with %v`, shorten(wanted, 64), all)
	}
	return all[max(first, 0)], nil
}

// algorithmsOf returns the algorithms that a key signs with, the usual one first.
func algorithmsOf(key crypto.Signer) []jose.SignatureAlgorithm {
	switch key := key.(type) {
	case *rsa.PrivateKey:
		return []jose.SignatureAlgorithm{jose.RS256, jose.PS256, jose.RS384, jose.PS384, jose.RS512, jose.PS512}
	case ed25519.PrivateKey:
		return []jose.SignatureAlgorithm{jose.EdDSA}
	case *ecdsa.PrivateKey:
		switch key.Curve.Params().BitSize {
		case 256:
			return []jose.SignatureAlgorithm{jose.ES256}
		case 384:
			return []jose.SignatureAlgorithm{jose.ES384}
		case 521:
			return []jose.SignatureAlgorithm{jose.ES512}
		}
	}
	return nil
}
