package config

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/internal/clientauth"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

const tlsOfTests = `"tlsCert": "c", "tlsKey": "k", "clientCA": "ca.pem", `

func TestCertificates(t *testing.T) {
	cn := []clientauth.Attribute{{Name: "CN", Value: "build"}}
	for _, tt := range []struct {
		entry string
		want  Certificate
		says  string // the begin; "" for no problem
	}{
		{`"CN=build": "ci"`, Certificate{Subject: "CN=build", Attributes: cn, Name: "CN=build", Profile: "ci", Role: roleUse}, ""},
		{`"CN=build": {}`, Certificate{Subject: "CN=build", Attributes: cn, Name: "CN=build", Role: roleUse}, ""},
		{`"dns = b.example , O=Acme\\, Inc.\\\\=": {"name": "b", "profile": "ci", "role": "admin", "rate": "2/s"}`,
			Certificate{Subject: `dns = b.example , O=Acme\, Inc.\\=`, Attributes: []clientauth.Attribute{{Name: "DNS", Value: "b.example"}, {Name: "O", Value: `Acme, Inc.\=`}}, Name: "b", Profile: "ci", Role: roleAdmin, Rate: Rate{PerSecond: 2, Burst: 2}}, ""},

		{`"CN=build": "gone"`, Certificate{Subject: "CN=build", Attributes: cn, Profile: "gone", Role: roleUse}, `error: there is no profile "gone", so certificates with "CN=build" let no client in; write`},
		{`"CN=build": "C I"`, Certificate{Subject: "CN=build", Attributes: cn, Role: roleUse}, `error: "CN=build" must be the name of a profile, or an object, so certificates with "CN=build" let no client in; write`},
		{`"CN=build": null`, Certificate{Subject: "CN=build", Attributes: cn, Role: roleUse}, `error: "CN=build" must be the name of a profile`},
		{`"CN=build": {"profile": 1}`, Certificate{Subject: "CN=build", Attributes: cn, Role: roleUse}, `error: "profile" must be a string, so certificates with "CN=build" let no client in; put`},
		{`"CN=build": {"profil": "ci"}`, Certificate{Subject: "CN=build", Attributes: cn, Role: roleUse}, `error: the key "profil" is not known, so`},
		{`"CN=build": {"servers": "ci"}`, Certificate{Subject: "CN=build", Attributes: cn, Role: roleUse}, `error: the key "servers" has no effect here`},
		{`"CN=build": {"role": "root"}`, Certificate{Subject: "CN=build", Attributes: cn, Role: roleUse}, `error: "role" must be "use" or "admin", so`},
		{`"CN=build": {"name": "token", "profile": "ci"}`, Certificate{Subject: "CN=build", Attributes: cn, Profile: "ci", Role: roleUse}, `error: the name "token" is already that of a token`},

		{`"UID=build": "ci"`, Certificate{}, `error: "certificates.UID=build" has the part "UID", which must be one of CN, O, OU, C, DNS, URI, EMAIL; write it like`},
		{`"build": "ci"`, Certificate{}, `error: "certificates.build" must be parts of a certificate`},
		{`"*": "ci"`, Certificate{}, `error: "certificates.*" must be parts of a certificate`},
		{`"": "ci"`, Certificate{}, `error: "certificates." must be parts of a certificate`},
		{`"CN=": "ci"`, Certificate{}, `error: "certificates.CN=" must be parts of a certificate`},
		{`"CN=a,": "ci"`, Certificate{}, `error: "certificates.CN=a," must be parts of a certificate`},
		{`"CN=a, Inc.": "ci"`, Certificate{}, `error: "certificates.CN=a, Inc." must be parts of a certificate`},
		{`"CN=a\u0007": "ci"`, Certificate{}, `error: "certificates.CN=a\a" must have at most`},
		{`"CN=` + strings.Repeat("a", 254) + `": "ci"`, Certificate{}, `error: "certificates.CN=aaa`},
		{`"CN=a": "ci", "CN=a": "work"`, Certificate{}, `error: "certificates.CN=a" is here twice`},
		{`"CN=a,O=b": "ci", "O=b,cn=a": "work"`, Certificate{}, `error: "certificates.O=b,cn=a" is here twice; remove one`},
	} {
		c := loadHTTP(t, tlsOfTests+`"tokens": [{"token": "a", "name": "token"}], "certificates": {`+tt.entry+`}`)
		if got := c.Router.HTTP.Certificates; isRefused(c) != (tt.want.Subject == "") || !isRefused(c) && (len(got) != 1 || !reflect.DeepEqual(got[0], tt.want)) {
			t.Errorf("%s: got %+v, want %+v", tt.entry, got, tt.want)
		}
		says(t, c, tt.entry, tt.says)
	}
}

// Entries with more attributes come first, also those with a mistake: their certificates must
// not be let in by a less specific entry.
func TestCertificatesByAttributes(t *testing.T) {
	c := loadHTTP(t, tlsOfTests+`"certificates": {"O=Acme": {}, "CN=a,O=Acme": "gone", "CN=b": {"role": 1}, "CN=c,O=Acme,OU=x": "ci"}`)
	got := ""
	for _, one := range c.Router.HTTP.Certificates {
		got += one.Subject + ":" + one.Name + " "
	}
	expect.Equal(t, got, "CN=c,O=Acme,OU=x:CN=c,O=Acme,OU=x CN=a,O=Acme: O=Acme:O=Acme CN=b: ")
}

// The keys for certificates need each other, and no single one makes the router public.
func TestCertificatesFailClosed(t *testing.T) {
	for text, want := range map[string]string{
		tlsOfTests + `"certificates": {"CN=a": "ci"}`:                 "",
		tlsOfTests + `"certificates": {}`:                             `error: "clientCA" lets no client in without "certificates"`,
		tlsOfTests + `"certificates": true`:                           `error: "certificates" must be an object`,
		tlsOfTests + `"certificates": ["CN=a"]`:                       `error: "certificates" must be an object`,
		`"clientCA": "ca.pem", "certificates": {"CN=a": "ci"}`:        `warning: "clientCA" has no effect without TLS`,
		`"clientCA": "${NOPE}", "certificates": {"CN=a": "ci"}`:       `error: "clientCA" has no value: the variable NOPE is not set`,
		`"tlsCert": "c", "tlsKey": "k", "clientCA": "${NOPE}"`:        `error: "clientCA" has no value`,
		`"tlsCert": "c", "tlsKey": "k", "clientCA": 1`:                `error: "clientCA" must be a string`,
		`"tlsCert": "c", "tlsKey": "k", "certificates": {"CN=a": {}}`: `error: "certificates" lets no client in without "clientCA"`,
		`"tlsCert": "c", "tlsKey": "k", "certificats": {"CN=a": {}}`:  `error: the key "certificats" is not known; did you mean "certificates"?`,
	} {
		c := loadHTTP(t, text)
		says(t, c, text, want)
		if c.Router.HTTP.isPublic() != isRefused(c) || isRefused(c) != strings.HasPrefix(want, "error") {
			t.Errorf("%s: it is refused: %v", text, isRefused(c))
		}
	}
}

// authority returns a certificate that signs others, in PEM.
func authority(t *testing.T) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	expect.OK(t, err)
	ca := &x509.Certificate{SerialNumber: big.NewInt(1), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, ca, ca, &key.PublicKey, key)
	expect.OK(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// Only a look at the files shows that these do not work.
func TestExamineClientCAAndAudit(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "mcp.json")
	examined := func(ca, audit string) string {
		write(t, path, `{"metarouter": {"profiles": {"ci": {}}, "audit": "`+audit+`", "http": {"clientCA": "`+ca+`", "certificates": {"CN=a": "ci"}}}}`)
		c, err := Load(path)
		expect.OK(t, err)
		c = c.Examine()
		c.Problems = slices.DeleteFunc(c.Problems, func(p Problem) bool { return strings.Contains(p.Message, "without TLS") })
		return saidOf(c)
	}
	write(t, filepath.Join(dir, "no.pem"), "no certificate")
	ca := string(authority(t))
	write(t, filepath.Join(dir, "ca.pem"), "comment\n"+ca+ca)
	write(t, filepath.Join(dir, "key.pem"), ca+"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n")
	write(t, filepath.Join(dir, "bad.pem"), ca+"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
	for _, tt := range []struct{ ca, audit, says string }{
		{"ca.pem", "audit.jsonl", ""},
		{"no.pem", "audit.jsonl", `error: 'metarouter serve --http' does not start with this "clientCA": it holds no certificate in PEM; write`},
		{"key.pem", "audit.jsonl", `error: 'metarouter serve --http' does not start with this "clientCA": it holds a "PRIVATE KEY"`},
		{"bad.pem", "audit.jsonl", `error: 'metarouter serve --http' does not start with this "clientCA": its certificate 2 is damaged`},
		{"gone.pem", "audit.jsonl", `error: 'metarouter serve --http' does not start with this "clientCA": no such file`},
		{"ca.pem", "no.pem/x", `error: 'metarouter serve' does not start with this "audit": `},
	} {
		if said := examined(tt.ca, tt.audit); !strings.HasPrefix(said, tt.says) || tt.says == "" && said != "" || strings.Contains(said, dir) {
			t.Errorf("%s, %s: %q", tt.ca, tt.audit, said)
		}
	}
}

func TestAudit(t *testing.T) {
	def := Audit{MaxSize: 10 << 20, MaxFiles: 10}
	with := func(f func(*Audit)) Audit { a := def; f(&a); return a }
	for text, want := range map[string]struct {
		audit Audit
		says  string
	}{
		`false`:     {with(func(a *Audit) { a.Off = true }), ""},
		`""`:        {def, ""},
		`"a.jsonl"`: {with(func(a *Audit) { a.File = filepath.FromSlash("/project/a.jsonl") }), ""},
		`{}`:        {def, ""},
		`{"file": "/a.jsonl", "maxSize": "1MiB", "maxFiles": 2}`: {Audit{File: "/a.jsonl", MaxSize: 1 << 20, MaxFiles: 2}, ""},

		`true`:                      {Audit{}, `error: "audit" must be the path of a file, an object, or false`},
		`[]`:                        {Audit{}, `error: "audit" must be the path of a file, an object, or false`},
		`"${NOPE}"`:                 {Audit{}, `error: "audit" has no value: the variable NOPE is not set`},
		`{"maxFiles": 0}`:           {Audit{}, `error: "maxFiles" must be a whole number`},
		`{"maxSize": "0"}`:          {Audit{}, `error: "maxSize" must be a size`},
		`{"fil": "x"}`:              {Audit{}, `error: the key "fil" is not known; did you mean "file"?`},
		`"x", "accessLog": "./x"`:   {Audit{}, `error: "audit" and "accessLog" can't be the same file`},
		`false, "accessLog": "./x"`: {with(func(a *Audit) { a.Off = true }), ``},
	} {
		c := anyText(t, `{"metarouter": {"audit": `+text+`}}`)
		if said := saidOf(c); c.Router.Audit != want.audit || !strings.HasPrefix(said, want.says) || want.says == "" && said != "" {
			t.Errorf("%s: %+v, it says %q", text, c.Router.Audit, said)
		}
	}
}
