package web

import (
	"context"
	"crypto/x509"
	"errors"
	"net/http"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/internal/bearer"
	"github.com/mcp-metarouter/metarouter/internal/clientauth"
)

// A verifier verifies tokens, as a [bearer.Verifier] does.
type verifier interface {
	Verify(ctx context.Context, token, resource string) (*bearer.Token, error)
	Close()
}

// An admission has the rules of the configuration for clients that have no token of it. It is
// plain data.
type admission struct {
	issuers  []issuer
	subjects []subject // of certificates of clients
}

// An authenticator lets clients in by access tokens of issuers, and by certificates. It follows the configuration: each
// token is judged by the one in force when it comes. It must be closed.
type authenticator struct {
	live func() (*admission, <-chan struct{})
	open func(before verifier, issuers []bearer.Issuer) verifier // before is not closed; may be nil
	log  *zap.Logger

	closing sync.WaitGroup // of the verifiers that are not in use any more

	mu     sync.Mutex    // guards the fields below
	inUse  *usedVerifier // nil before the first token
	closed bool
	warned time.Time // when the log last had a certificate that lets no client in
}

// A usedVerifier is a verifier in use. It keeps the keys of issuers, and so stays when only the rules for
// their users change.
type usedVerifier struct {
	verifier
	issuers []bearer.Issuer
	users   sync.WaitGroup // calls of Verify
}

func newAuthenticator(live func() (*admission, <-chan struct{}), open func(verifier, []bearer.Issuer) verifier, log *zap.Logger) *authenticator {
	return &authenticator{live: live, open: open, log: log}
}

// Close waits until all tokens are judged. Later ones can't be.
func (a *authenticator) Close() {
	a.mu.Lock()
	a.closed = true
	a.retire()
	a.mu.Unlock()
	a.closing.Wait()
}

// retire closes the verifier in use once its calls have ended. a.mu must be held.
func (a *authenticator) retire() {
	before := a.inUse
	a.inUse = nil
	if before == nil {
		return
	}
	a.closing.Go(func() {
		before.users.Wait()
		before.Close()
	})
}

var (
	errEnding   = errors.New("the router is ending, and verifies no more tokens")
	errNoIssuer = &clientauth.Refusal{Status: http.StatusUnauthorized, Reason: "access tokens of identity providers are not accepted here"}
	errEternal  = &clientauth.Refusal{Status: http.StatusUnauthorized, Reason: "the token does not say when it expires"}
	errForeign  = &clientauth.Refusal{Status: http.StatusUnauthorized, Reason: "the token is of an issuer that is not accepted here"}
)

// begin returns the rules that are in force now, and a verifier for them, on which the caller must
// call users.Done.
func (a *authenticator) begin() (*admission, *usedVerifier, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return nil, nil, errEnding
	}
	now, _ := a.live() // under the lock, so that an older one never replaces the verifier of a newer one
	if len(now.issuers) == 0 {
		a.retire()
		return nil, nil, errNoIssuer
	}
	issuers := make([]bearer.Issuer, len(now.issuers))
	for i, one := range now.issuers {
		issuers[i] = one.verified()
	}
	if a.inUse == nil || !slices.Equal(a.inUse.issuers, issuers) {
		var before verifier
		if a.inUse != nil {
			before = a.inUse.verifier
		}
		next := &usedVerifier{verifier: a.open(before, issuers), issuers: issuers}
		a.retire()
		a.inUse = next
	}
	a.inUse.users.Add(1)
	return now, a.inUse, nil
}

// Token implements [clientauth.Authenticator].
func (a *authenticator) Token(ctx context.Context, token, resource string) (clientauth.Proof, error) {
	now, used, err := a.begin()
	if err != nil {
		return clientauth.Proof{}, err
	}
	defer used.users.Done()
	valid, err := used.Verify(ctx, token, resource)
	if invalid, ok := errors.AsType[*bearer.InvalidError](err); ok {
		return clientauth.Proof{}, &clientauth.Refusal{Status: http.StatusUnauthorized, Reason: invalid.Reason}
	}
	if err != nil {
		return clientauth.Proof{}, err
	}
	if valid.Expires.IsZero() {
		return clientauth.Proof{}, errEternal
	}
	i := slices.IndexFunc(now.issuers, func(i issuer) bool { return i.URL == valid.Issuer })
	if i < 0 {
		return clientauth.Proof{}, errForeign
	}
	return now.issuers[i].proof(valid)
}

// Certificate implements [clientauth.Authenticator].
func (a *authenticator) Certificate(leaf *x509.Certificate) (hash string, ok bool) {
	now, _ := a.live()
	if len(now.subjects) == 0 {
		return "", false
	}
	hash, m := find(leaf, now.subjects)
	if m != known {
		a.warn(leaf, m)
	}
	return hash, m == known
}

// warn logs at times that a certificate lets no client in.
func (a *authenticator) warn(leaf *x509.Certificate, m match) {
	a.mu.Lock()
	often := time.Since(a.warned) < warnAgain
	if !often {
		a.warned = time.Now()
	}
	a.mu.Unlock()
	if often {
		return
	}
	why := "no entry of http.certificates matches it; add one"
	switch m {
	case ambiguous:
		why = "several entries of http.certificates match it that have as many parts; write one with more parts"
	case refused:
		why = "the entry of http.certificates that matches it has a mistake; correct it"
	}
	a.log.Warn("the certificate of a client does not let it in: "+why, zap.String("subject", describe(leaf)))
}
