package web

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"maps"
	"net"
	"net/http"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/internal/clientauth"
)

// authorities are the certificate authorities that let clients in, read from a file,
// and again when a client connects and every few seconds. A connection ends when the certificate
// of its client is not valid any more, since TLS looks at it only at the beginning.
type authorities struct {
	reloaded[x509.CertPool]

	tracking sync.Mutex                        // guards conns
	conns    map[*tls.Conn][]*x509.Certificate // that the client sent: its own first
}

// sweepTime is how often the connections with certificates are looked at.
const sweepTime = 5 * time.Second

// loadAuthorities reads the file, which must have a certificate.
func loadAuthorities(file string, log *zap.Logger) (*authorities, error) {
	parse := func(data [][]byte) (*x509.CertPool, error) { return clientauth.Authorities(data[0]) }
	note := func(_ *x509.CertPool, again bool) {
		if again {
			log.Info("the certificate authorities of clients have changed; connections with certificates of removed ones end", zap.String("file", file))
		}
	}
	a := &authorities{
		reloaded: reloaded[x509.CertPool]{what: "the file of http.clientCA", files: []string{file}, parse: parse, note: note, every: fileCheck, log: log},
		conns:    make(map[*tls.Conn][]*x509.Certificate),
	}
	return a, a.load()
}

// changed is a ConnState of an [http.Server]. It notes the connections of clients with
// certificates.
func (a *authorities) changed(c net.Conn, state http.ConnState) {
	t, ok := c.(*tls.Conn)
	if !ok {
		return
	}
	switch state {
	case http.StateActive:
		if sent := t.ConnectionState().PeerCertificates; len(sent) > 0 {
			a.tracking.Lock()
			defer a.tracking.Unlock()
			a.conns[t] = sent
		}
	case http.StateClosed, http.StateHijacked:
		a.tracking.Lock()
		defer a.tracking.Unlock()
		delete(a.conns, t)
	}
}

// watch ends connections with certificates that are not valid any more, until ctx ends.
func (a *authorities) watch(ctx context.Context) {
	tick := time.NewTicker(sweepTime)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			a.sweep(time.Now())
		case <-ctx.Done():
			return
		}
	}
}

// sweep closes the connections with certificates that are not valid now. They are not looked at again.
func (a *authorities) sweep(now time.Time) {
	current := a.get()
	a.tracking.Lock()
	conns := maps.Clone(a.conns)
	a.tracking.Unlock()
	for conn, sent := range conns {
		if err := verify(sent, current, now); err != nil {
			a.log.Info("a connection ends, since the certificate of its client is not valid any more", zap.Error(err))
			a.changed(conn, http.StateClosed)
			conn.NetConn().Close() // at once; [tls.Conn.Close] may wait for the client
		}
	}
}

// verify verifies a client's certificate as TLS does.
func verify(sent []*x509.Certificate, p *x509.CertPool, now time.Time) error {
	between := x509.NewCertPool()
	for _, c := range sent[1:] {
		between.AddCert(c)
	}
	_, err := sent[0].Verify(x509.VerifyOptions{
		Roots: p, Intermediates: between, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	return err
}
