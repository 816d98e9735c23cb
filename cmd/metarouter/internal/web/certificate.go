package web

import (
	"crypto/tls"
	"time"

	"go.uber.org/zap"
)

// A certificate is the certificate of a TLS server, read from files, and again when a client
// connects.
type certificate struct{ reloaded[tls.Certificate] }

// loadCertificate reads the certificate. The files are PEM; the certificate's holds
// its chain too.
func loadCertificate(certFile, keyFile string, log *zap.Logger) (*certificate, error) {
	parse := func(data [][]byte) (*tls.Certificate, error) {
		pair, err := tls.X509KeyPair(data[0], data[1])
		return &pair, err
	}
	note := func(pair *tls.Certificate, again bool) {
		if again {
			log.Info("the TLS certificate has changed", until(pair))
		}
		if time.Now().After(pair.Leaf.NotAfter) {
			log.Warn("the TLS certificate has expired, and clients refuse it", until(pair))
		}
	}
	c := &certificate{reloaded[tls.Certificate]{what: "the TLS certificate", files: []string{certFile, keyFile}, parse: parse, note: note, every: fileCheck, log: log}}
	return c, c.load()
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
		now.ClientAuth, now.ClientCAs = tls.VerifyClientCertIfGiven, clients.get()
		return now, nil
	}
	return asking
}
