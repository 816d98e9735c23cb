//go:build linux

package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metarouter/metarouter/test/external"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

// An authority issues certificates, as PEM files in a folder.
type authority struct {
	t    *testing.T
	dir  string
	name string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T, dir, name string) *authority {
	t.Helper()
	a := &authority{t: t, dir: dir, name: name}
	a.cert, a.key = a.issue(name, &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	})
	return a
}

// issue writes NAME.pem and NAME.key.
func (a *authority) issue(name string, c *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	c.SerialNumber = big.NewInt(time.Now().UnixNano())
	if c.NotAfter.IsZero() {
		c.NotAfter = time.Now().Add(time.Hour)
	}
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = c, key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, key.Public(), signer)
	if err != nil {
		a.t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	for end, block := range map[string]*pem.Block{".pem": {Type: "CERTIFICATE", Bytes: der}, ".key": {Type: "PRIVATE KEY", Bytes: private}} {
		if err := writeFile(filepath.Join(a.dir, name+end), string(pem.EncodeToMemory(block))); err != nil {
			a.t.Fatal(err)
		}
	}
	made, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return made, key
}

// client issues the certificate of a client.
func (a *authority) client(name string, subject pkix.Name, until time.Time, usage x509.ExtKeyUsage) {
	a.t.Helper()
	a.issue(name, &x509.Certificate{Subject: subject, NotAfter: until, ExtKeyUsage: []x509.ExtKeyUsage{usage}, KeyUsage: x509.KeyUsageDigitalSignature})
}

// Clients prove who they are by certificates of the team's own authority.
func TestClientCertificates(t *testing.T) {
	t.Parallel()
	curl := external.Program(t, "curl")
	dir := t.TempDir()
	ca, other := newAuthority(t, dir, "ca"), newAuthority(t, dir, "other")
	ca.issue("server", &x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	soon, past := time.Now().Add(time.Hour), time.Now().Add(-time.Hour)
	ca.client("build", pkix.Name{CommonName: "build", Organization: []string{"Acme"}}, soon, x509.ExtKeyUsageClientAuth)
	ca.client("boss", pkix.Name{CommonName: "boss"}, soon, x509.ExtKeyUsageClientAuth)
	ca.client("nobody", pkix.Name{CommonName: "nobody"}, soon, x509.ExtKeyUsageClientAuth)
	ca.client("late", pkix.Name{CommonName: "build"}, past, x509.ExtKeyUsageClientAuth)
	ca.client("wrong", pkix.Name{CommonName: "build"}, soon, x509.ExtKeyUsageServerAuth)
	other.client("stranger", pkix.Name{CommonName: "build"}, soon, x509.ExtKeyUsageClientAuth)

	s := prepare(t, teamServers(), map[string]any{
		"mode": "direct", "listWait": "1m",
		"profiles": map[string]any{"workbench": map[string]any{"servers": []string{"quill"}}},
		"http": map[string]any{
			"clientCA":     filepath.Join(dir, "ca.pem"),
			"certificates": map[string]any{"CN=build": "workbench", "CN=boss": map[string]any{"name": "boss", "role": "admin"}},
			"tokens":       []map[string]any{{"token": usersToken, "name": "robot"}},
		},
	})
	address := mcptest.FreeAddress(t)
	s.serveAt(address, "--tls-cert", filepath.Join(dir, "server.pem"), "--tls-key", filepath.Join(dir, "server.key"))
	ask := func(path, certificate string, more ...string) string {
		args := append([]string{"-sS", "--max-time", "60", "--cacert", filepath.Join(dir, "ca.pem"), "-w", " %{http_code}"}, more...)
		if certificate != "" {
			args = append(args, "--cert", filepath.Join(dir, certificate+".pem"), "--key", filepath.Join(dir, certificate+".key"))
		}
		if strings.HasPrefix(path, "/mcp") {
			args = append(args, "-H", "Content-Type: application/json", "-d", "{}")
		}
		out, _ := exec.CommandContext(within(t), curl, append(args, "https://"+address+path)...).CombinedOutput()
		return string(out)
	}
	for _, test := range []struct {
		certificate, path, want, lacks string
		more                           []string
	}{
		{"build", "/mcp/tools/list", "quill__echo", "kite", nil},
		{"build", "/metrics", " 403", "quill", nil},
		{"boss", "/mcp/tools/list", "kite__pid", "", nil},
		{"boss", "/metrics", " 200", "", nil},
		{"nobody", "/mcp/tools/list", " 401", "quill", nil},
		{"", "/mcp/tools/list", " 401", "quill", nil},
		{"", "/mcp/tools/list", "kite__pid", "", []string{"-H", "Authorization: Bearer " + usersToken}},
		{"build", "/mcp/tools/list", "kite__pid", "", []string{"-H", "Authorization: Bearer " + usersToken}}, // the token counts
		{"build", "/mcp/tools/list", " 401", "quill", []string{"-H", "Authorization: Bearer wrong"}},
		{"late", "/mcp/tools/list", "", "quill", nil},
		{"wrong", "/mcp/tools/list", "", "quill", nil},
		{"stranger", "/mcp/tools/list", "", "quill", nil},
	} {
		got := ask(test.path, test.certificate, test.more...)
		if !strings.Contains(got, test.want) || test.lacks != "" && strings.Contains(got, test.lacks) {
			t.Errorf("%s with the certificate %q and %q: %s, want %q", test.path, test.certificate, test.more, got, test.want)
		}
	}
}
