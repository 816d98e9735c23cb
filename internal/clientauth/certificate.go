package clientauth

import (
	"crypto/x509"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
)

const maxSubject = 256 // bytes of a list of attributes

// An Attribute is a part of a certificate's subject (CN, O, OU, C), or one of its alternative
// names (DNS, URI, EMAIL).
type Attribute struct{ Name, Value string }

var attributeNames = []string{"CN", "O", "OU", "C", "DNS", "URI", "EMAIL"}

// CertificateIdentity is the same for subjects that differ only in the order of their attributes.
func CertificateIdentity(attributes []Attribute) string {
	all := make([]string, len(attributes))
	for i, a := range attributes {
		all[i] = fmt.Sprintf("%s=%q", a.Name, a.Value)
	}
	slices.Sort(all)
	return strings.Join(all, ",")
}

// Attributes parses "CN=build" or "DNS=build.example.com,O=Acme". A \ takes the next comma
// literally.
func Attributes(subject string) (all []Attribute, err error) {
	const advice = `; write it like "CN=build" or "DNS=build.example.com,O=Acme"`
	if len(subject) > maxSubject || strings.ContainsFunc(subject, func(r rune) bool { return !unicode.IsPrint(r) || r == unicode.ReplacementChar }) {
		return nil, fmt.Errorf("must have at most %d printable characters"+advice, maxSubject)
	}
	// No text has the characters that stand for those behind a \.
	for part := range strings.SplitSeq(strings.NewReplacer(`\\`, "\x00", `\,`, "\x01").Replace(subject), ",") {
		name, value, ok := strings.Cut(strings.NewReplacer("\x00", `\`, "\x01", ",").Replace(part), "=")
		name, value = strings.ToUpper(strings.TrimSpace(name)), strings.TrimSpace(value)
		switch {
		case !ok || name == "" || value == "":
			return nil, errors.New("must be parts of a certificate with their values, separated by commas" + advice)
		case !slices.Contains(attributeNames, name):
			return nil, fmt.Errorf("has the part %q, which must be one of %s"+advice, name, strings.Join(attributeNames, ", "))
		}
		all = append(all, Attribute{name, value})
	}
	return all, nil
}

// commonName is the type of CN.
var commonName = asn1.ObjectIdentifier{2, 5, 4, 3}

// In reports whether the certificate has the attribute, byte for byte.
func (a Attribute) In(leaf *x509.Certificate) bool {
	values := map[string][]string{
		"O": leaf.Subject.Organization, "OU": leaf.Subject.OrganizationalUnit, "C": leaf.Subject.Country, "DNS": leaf.DNSNames, "EMAIL": leaf.EmailAddresses,
	}[a.Name]
	switch a.Name {
	case "CN":
		names := 0 // Go takes the last one; others may take another one
		for _, n := range leaf.Subject.Names {
			if n.Type.Equal(commonName) {
				names++
			}
		}
		return names == 1 && leaf.Subject.CommonName == a.Value && a.Value != ""
	case "URI":
		for _, u := range leaf.URIs {
			values = append(values, u.String())
		}
	}
	return slices.Contains(values, a.Value)
}

// Authorities reads certificates in PEM, with comments between them, and nothing else.
func Authorities(data []byte) (*x509.CertPool, error) {
	all, n := x509.NewCertPool(), 0
	block, rest := pem.Decode(data)
	for ; block != nil; block, rest = pem.Decode(rest) {
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
	case strings.Contains(string(rest), "-----BEGIN"):
		return nil, errors.New("its last certificate is not whole")
	case n == 0:
		return nil, errors.New("it holds no certificate in PEM")
	}
	return all, nil
}
