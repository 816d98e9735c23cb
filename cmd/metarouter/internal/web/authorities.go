package web

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/internal/clientauth"
	"github.com/mcp-metarouter/metarouter/internal/signal"
)

// authorities are the certificate authorities that let clients in, read from a file,
// and again when a client connects and every few seconds.
type authorities struct {
	reloaded[x509.CertPool]
	sweep time.Duration // how often the certificates of requests that run are verified again
	now   func() time.Time
}

// sweepTime is the sweep of authorities.
const sweepTime = 5 * time.Second

// loadAuthorities reads the file, which must have a certificate.
func loadAuthorities(file string, log *zap.Logger) (*authorities, error) {
	parse := func(data [][]byte) (*x509.CertPool, error) { return clientauth.Authorities(data[0]) }
	note := func(_ *x509.CertPool, again bool) {
		if again {
			log.Info("the certificate authorities of clients have changed; requests with certificates of removed ones end", zap.String("file", file))
		}
	}
	a := &authorities{
		reloaded: reloaded[x509.CertPool]{what: "the certificates of http.clientCA", files: []string{file}, parse: parse, note: note, every: fileCheck, log: log},
		sweep:    sweepTime, now: time.Now,
	}
	return a, a.load()
}

// handler returns a handler that refuses requests of clients with certificates that are not valid any more, and ends those
// that run: TLS looks at a certificate only at the beginning of a connection.
func (a *authorities) handler(serve http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if len(r.TLS.PeerCertificates) == 0 {
			serve.ServeHTTP(w, r)
			return
		}
		if err := a.verify(r.TLS); err != nil {
			a.log.Info("a request is refused, since the certificate of its client is not valid any more", zap.Error(err))
			w.Header().Set("Connection", "close")
			http.Error(w, "the certificate is not valid any more", http.StatusUnauthorized)
			return
		}
		ctx, stop := signal.While(r.Context(), a.sweep, func(context.Context) bool { return a.verify(r.TLS) == nil }, nil)
		defer stop()
		serve.ServeHTTP(w, r.WithContext(ctx))
	})
}

// verify verifies a client's certificate, the first one, as TLS does.
func (a *authorities) verify(t *tls.ConnectionState) error {
	o := x509.VerifyOptions{Roots: a.get(), Intermediates: x509.NewCertPool(), CurrentTime: a.now(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	for _, c := range t.PeerCertificates[1:] {
		o.Intermediates.AddCert(c)
	}
	_, err := t.PeerCertificates[0].Verify(o)
	return err
}
