package web

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/internal/safefile"
)

// maxPEM is the most bytes of a file of a certificate or a key.
const maxPEM = 1 << 20

// certificateCheck is the least time between two looks at the files of a certificate.
const certificateCheck = time.Second

// A certificate is the certificate of a TLS server, read from files. The files are read
// again when a client connects, so it does not matter how they are replaced. While they
// hold no certificate with its key, as between two writes, the last valid one stays in
// use.
type certificate struct {
	certFile, keyFile string
	every             time.Duration // the least time between two looks at the files
	log               *zap.Logger

	current atomic.Pointer[tls.Certificate]

	mu     sync.Mutex // guards the fields below, and is held while the files are read
	looked time.Time
	seen   [sha256.Size]byte // hash of their contents, or of the error that reading them gave
}

// loadCertificate reads the certificate. The files are PEM; the certificate's holds
// its chain too.
func loadCertificate(certFile, keyFile string, log *zap.Logger) (*certificate, error) {
	c := &certificate{certFile: certFile, keyFile: keyFile, every: certificateCheck, log: log}
	pair, seen, err := c.read()
	if err != nil {
		return nil, err
	}
	c.use(pair)
	c.seen, c.looked = seen, time.Now()
	return c, nil
}

// read reads the files. seen changes when they do.
func (c *certificate) read() (pair *tls.Certificate, seen [sha256.Size]byte, err error) {
	cert, err := safefile.Read(c.certFile, maxPEM)
	key, keyErr := safefile.Read(c.keyFile, maxPEM)
	if err == nil {
		err = keyErr
	}
	if err != nil {
		return nil, sha256.Sum256([]byte(err.Error())), err
	}
	seen = sha256.Sum256(bytes.Join([][]byte{cert, key}, []byte{0}))
	made, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, seen, fmt.Errorf("%s and %s: %w", c.certFile, c.keyFile, err)
	}
	return &made, seen, nil
}

// get returns the certificate for a client. Of clients that connect at once, one reads
// the files, and the others get the certificate in use.
func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if c.mu.TryLock() {
		c.refresh()
		c.mu.Unlock()
	}
	return c.current.Load(), nil
}

// refresh reads the files, unless that was done just now. c.mu must be held.
func (c *certificate) refresh() {
	if time.Since(c.looked) < c.every {
		return
	}
	c.looked = time.Now()
	pair, seen, err := c.read()
	if seen == c.seen {
		return
	}
	c.seen = seen
	if err != nil {
		c.log.Error("the TLS certificate can't be read again; the one in use stays", zap.Error(err))
		return
	}
	c.log.Info("the TLS certificate has changed", until(pair))
	c.use(pair)
}

// use makes get return the certificate from now on.
func (c *certificate) use(pair *tls.Certificate) {
	c.current.Store(pair)
	if time.Now().After(pair.Leaf.NotAfter) {
		c.log.Warn("the TLS certificate has expired, and clients refuse it", until(pair))
	}
}

func until(pair *tls.Certificate) zap.Field {
	return zap.String("until", pair.Leaf.NotAfter.UTC().Format(time.RFC3339))
}

// config returns the configuration of a server with the certificate.
func (c *certificate) config() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: c.get}
}
