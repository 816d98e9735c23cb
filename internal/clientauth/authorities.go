package clientauth

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
)

// Authorities reads certificates in PEM, with comments between them, and nothing else.
func Authorities(data []byte) (*x509.CertPool, error) {
	all, n := x509.NewCertPool(), 0
	for {
		block, rest := pem.Decode(data)
		if block == nil {
			break
		}
		data = rest
		if block.Type != "CERTIFICATE" {
			return nil, fmt.Errorf("it holds a %q, and not only certificates", block.Type)
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("its certificate %d is damaged", n+1)
		}
		all.AddCert(c)
		n++
	}
	switch {
	case strings.Contains(string(data), "-----BEGIN"):
		return nil, errors.New("its last certificate is not whole")
	case n == 0:
		return nil, errors.New("it holds no certificate in PEM")
	}
	return all, nil
}
