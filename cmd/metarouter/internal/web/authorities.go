package web

import (
	"context"
	"crypto/x509"
	"net/http"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/internal/clientauth"
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
		sent := r.TLS.PeerCertificates
		if len(sent) == 0 {
			serve.ServeHTTP(w, r)
			return
		}
		if err := a.verify(sent); err != nil {
			a.log.Info("a request is refused, since the certificate of its client is not valid any more", zap.Error(err))
			w.Header().Set("Connection", "close")
			http.Error(w, "the certificate is not valid any more", http.StatusUnauthorized)
			return
		}
		ctx, cancel := context.WithCancel(r.Context())
		var watching sync.WaitGroup
		defer watching.Wait()
		defer cancel()
		watching.Go(func() {
			for {
				select {
				case <-time.After(a.sweep):
				case <-ctx.Done():
					return
				}
				if a.verify(sent) != nil {
					cancel()
				}
			}
		})
		serve.ServeHTTP(w, r.WithContext(ctx))
	})
}

// verify verifies a client's certificate, the first one, as TLS does.
func (a *authorities) verify(sent []*x509.Certificate) error {
	between := x509.NewCertPool()
	for _, c := range sent[1:] {
		between.AddCert(c)
	}
	_, err := sent[0].Verify(x509.VerifyOptions{
		Roots: a.get(), Intermediates: between, CurrentTime: a.now(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	return err
}
