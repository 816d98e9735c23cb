package web

import (
	"context"
	"crypto/x509"
	"slices"

	"go.uber.org/zap"
	"golang.org/x/time/rate"

	"github.com/mcp-metarouter/metarouter/internal/bearer"
	"github.com/mcp-metarouter/metarouter/internal/clientauth"
	"github.com/mcp-metarouter/metarouter/internal/plain"
	"github.com/mcp-metarouter/metarouter/internal/prose"
)

// maxSubject bounds the subject of a certificate in a log, in bytes.
const maxSubject = 200

// An authenticator lets clients in by access tokens of issuers, and by certificates, as one configuration says.
type authenticator struct {
	issuers  []issuer
	accepted []bearer.Issuer // the same, as tokens are verified
	subjects []subject       // of certificates of clients
	verifier *bearer.Verifier
	log      *zap.Logger
	warn     *rate.Sometimes // for a certificate that lets no client in
}

// Token implements [clientauth.Authenticator].
func (a *authenticator) Token(ctx context.Context, token, resource string) (clientauth.Proof, error) {
	valid, err := a.verifier.Verify(ctx, a.accepted, token, resource)
	if err != nil {
		return clientauth.Proof{}, err
	}
	return a.issuers[slices.IndexFunc(a.accepted, func(i bearer.Issuer) bool { return i.URL == valid.Issuer })].proof(valid)
}

// Certificate implements [clientauth.Authenticator].
func (a *authenticator) Certificate(leaf *x509.Certificate) (hash string, ok bool) {
	if len(a.subjects) == 0 {
		return "", false
	}
	hash, why := find(leaf, a.subjects)
	if why != "" {
		a.warn.Do(func() {
			a.log.Warn("the certificate of a client does not let it in: "+why, zap.String("subject", prose.Cut(plain.Line(leaf.Subject.String()), maxSubject)))
		})
	}
	return hash, why == ""
}
