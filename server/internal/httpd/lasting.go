package httpd

import (
	"context"
	"crypto/x509"
	"errors"
	"time"
)

// proofLasts is after which time a stream's client must prove again who it is, by what its
// request has.
const proofLasts = time.Minute

// lasting ends the request when its client may not be served any more, as a token does that
// expires or whose user was removed. Only streams that last need it: what a call does is not cut.
// The returned function must be called.
func (x *exchange) lasting() (stop func()) {
	if x.proves == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(x.context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		again := time.NewTicker(proofLasts)
		defer again.Stop()
		for {
			select {
			case <-again.C:
			case <-ctx.Done():
				return
			}
			if !x.proves(ctx) {
				x.end(errRevoked)
				return
			}
		}
	}()
	return func() {
		cancel()
		<-ended
	}
}

// tokenProves returns a function that reports whether an access token still proves the
// principal. While the issuer can't be asked, it does until it expires.
func (h *Handler) tokenProves(token, resource string, proof Proof) func(context.Context) bool {
	return func(ctx context.Context) bool {
		now, _, err := h.judge(ctx, token, resource)
		if err == nil {
			proof.Expires = now.Expires
			return now.Principal == proof.Principal && now.Issuer == proof.Issuer
		}
		_, refused := errors.AsType[*Refusal](err)
		return !refused && time.Now().Before(proof.Expires)
	}
}

// certificateProves returns a function that reports whether a certificate still stands for the
// principal with the hash.
func (h *Handler) certificateProves(leaf *x509.Certificate, hash string) func(context.Context) bool {
	return func(context.Context) bool {
		now, ok := h.certified(leaf)
		return ok && now == hash
	}
}
