package stream

import (
	"bytes"
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math/big"
	"time"

	"github.com/nats-io/nkeys"
)

const protocol = "metarouter/2"

// certificate makes a certificate for the key of a node. Only the key in it counts.
func certificate(key string, signer crypto.Signer) (tls.Certificate, error) {
	raw, err := nkeys.Decode(nkeys.PrefixByteUser, []byte(key))
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("the public key of the node: %w", err)
	}
	if public, ok := signer.Public().(ed25519.PublicKey); !ok || !bytes.Equal(public, raw) {
		return tls.Certificate{}, errors.New("the node's private key does not belong to its public key")
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1<<36, 0)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, signer.Public(), signer)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("make the node's certificate: %w", err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: signer}, nil
}

// tlsConfig is for one handshake with the node that has the key.
func tlsConfig(own tls.Certificate, key string, trusted func(key string) bool) *tls.Config {
	return &tls.Config{
		MinVersion:   tls.VersionTLS13,
		Certificates: []tls.Certificate{own},
		NextProtos:   []string{protocol},
		ClientAuth:   tls.RequireAnyClientCert,
		// No authority knows the nodes. VerifyConnection compares the key instead.
		InsecureSkipVerify:          true,
		SessionTicketsDisabled:      true,
		DynamicRecordSizingDisabled: true, // a frame has one record
		VerifyConnection: func(state tls.ConnectionState) error {
			raw, err := nkeys.Decode(nkeys.PrefixByteUser, []byte(key))
			if err != nil || len(state.PeerCertificates) == 0 {
				return ErrUntrusted
			}
			public, ok := state.PeerCertificates[0].PublicKey.(ed25519.PublicKey)
			switch {
			case !ok || !bytes.Equal(public, raw) || !trusted(key):
				return ErrUntrusted
			case state.NegotiatedProtocol != protocol:
				return ErrProtocol
			}
			return nil
		},
	}
}
