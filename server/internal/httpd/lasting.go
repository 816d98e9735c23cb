package httpd

import (
	"context"
	"crypto/x509"
	"errors"
	"net/http"
	"time"
)

// proofLasts is after which time a stream's client must prove again who it is, by what its
// request has.
const proofLasts = time.Minute

// lasting returns the request with a context that ends when its client may not be served any more,
// as a token does that expires or whose user was removed. Only streams that last need it: what a
// call does is not cut. The returned function must be called.
func lasting(r *http.Request) (same *http.Request, stop func()) {
	proves := requestOf(r).client.proves
	if proves == nil {
		return r, func() {}
	}
	ctx, cancel := context.WithCancelCause(r.Context())
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
			if !proves(ctx) {
				cancel(errRevoked)
				return
			}
		}
	}()
	return r.WithContext(ctx), func() {
		cancel(nil)
		<-ended
	}
}

// tokenProves returns a function that reports whether an access token still proves the
// principal. While the issuer can't be asked, it does until it expires.
func (h *identifier) tokenProves(in *settings, token, resource string, proof Proof) func(context.Context) bool {
	return func(ctx context.Context) bool {
		now, _, err := h.judge(ctx, in, token, resource)
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
func (h *identifier) certificateProves(leaf *x509.Certificate, hash string) func(context.Context) bool {
	return func(context.Context) bool {
		now, ok := h.certified(leaf)
		return ok && now == hash
	}
}
