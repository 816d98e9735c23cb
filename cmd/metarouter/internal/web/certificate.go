package web

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/internal/safefile"
)

// A certificate is the certificate of a TLS server, read from files, and again when a client
// connects.
type certificate struct {
	reloaded[tls.Certificate]
	certFile, keyFile string
}

// loadCertificate reads the certificate. The files are PEM; the certificate's holds
// its chain too.
func loadCertificate(certFile, keyFile string, log *zap.Logger) (*certificate, error) {
	c := &certificate{certFile: certFile, keyFile: keyFile}
	c.reloaded = reloaded[tls.Certificate]{what: "the TLS certificate", read: c.readFiles, use: c.note, every: fileCheck, log: log}
	if err := c.load(); err != nil {
		return nil, err
	}
	return c, nil
}

// readFiles reads the files. seen changes when they do.
func (c *certificate) readFiles() (pair *tls.Certificate, seen [sha256.Size]byte, err error) {
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

// note logs that a certificate is used from now on, and whether it has expired.
func (c *certificate) note(pair *tls.Certificate, again bool) {
	if again {
		c.log.Info("the TLS certificate has changed", until(pair))
	}
	if time.Now().After(pair.Leaf.NotAfter) {
		c.log.Warn("the TLS certificate has expired, and clients refuse it", until(pair))
	}
}

func until(pair *tls.Certificate) zap.Field {
	return zap.String("until", pair.Leaf.NotAfter.UTC().Format(time.RFC3339))
}

// config returns the configuration of a server with the certificate. It asks clients for
// certificates of the authorities, if clients is not nil.
func (c *certificate) config(clients *authorities) *tls.Config {
	base := &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.get(), nil },
	}
	if clients == nil {
		return base
	}
	base.NextProtos = []string{"h2", "http/1.1"} // net/http can't add them to a configuration for one client
	base.SessionTicketsDisabled = true           // a resumed session would have a certificate that nothing verifies again
	asking := base.Clone()
	asking.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		now := base.Clone()
		now.ClientAuth, now.ClientCAs = tls.VerifyClientCertIfGiven, clients.get().CertPool
		return now, nil
	}
	return asking
}
