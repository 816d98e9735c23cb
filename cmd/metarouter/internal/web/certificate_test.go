package web

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// issue returns a certificate of the serial number for 127.0.0.1, and its key.
func issue(t *testing.T, serial int64, until time.Time) (cert, key []byte) {
	t.Helper()
	private := newKeyPair(t)
	self := &authority{key: private, certificate: &x509.Certificate{
		SerialNumber: big.NewInt(serial), NotAfter: until, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}}
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	expect.OK(t, err)
	return pemOf(self.sign(t, self.certificate, &private.PublicKey)), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded})
}

// A keyPair is the files of a certificate and its key.
type keyPair struct{ cert, key string }

func pairIn(dir string) keyPair {
	return keyPair{filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")}
}

// put writes over the files a certificate that is valid for an hour, and returns it.
func (p keyPair) put(t *testing.T, serial int64) (cert, key []byte) {
	t.Helper()
	cert, key = issue(t, serial, time.Now().Add(time.Hour))
	p.write(t, cert, key)
	return cert, key
}

func (p keyPair) write(t *testing.T, cert, key []byte) {
	t.Helper()
	write(t, p.cert, cert)
	write(t, p.key, key)
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	expect.OK(t, os.WriteFile(path, data, 0o600))
}

// A certificate is followed however it is renewed, and one that is broken is not.
func TestCertificate(t *testing.T) {
	dir := t.TempDir()
	files := pairIn(dir)
	_, err := loadCertificate(files.cert, files.key, zap.NewNop())
	expect.Error(t, err, "cert.pem", "of no file")
	files.put(t, 1)
	core, logs := observer.New(zapcore.InfoLevel)
	c, err := loadCertificate(files.cert, files.key, zap.New(core))
	expect.OK(t, err)
	serial := func() int64 {
		t.Helper()
		return c.get().Leaf.SerialNumber.Int64()
	}
	files.put(t, 2)
	expect.Equal(t, serial(), 1, "looked at once more at once")
	c.every = 0
	want := func(step string, serials int64, messages int) {
		t.Helper()
		for range 3 {
			expect.Equal(t, serial(), serials, "%s: the certificate", step)
		}
		expect.Equal(t, len(logs.TakeAll()), messages, "%s: … messages", step)
	}
	want("written", 2, 1)

	cert, key := issue(t, 3, time.Now().Add(time.Hour))
	write(t, files.cert+".new", cert)
	expect.OK(t, os.Rename(files.cert+".new", files.cert))
	want("the certificate without its key", 2, 1)
	write(t, files.key, key)
	want("with its key", 3, 1)

	write(t, files.cert, []byte("nonsense"))
	want("nonsense", 3, 1)
	os.Remove(files.key)
	want("no key", 3, 1)
	files.write(t, cert, key)
	want("repaired", 3, 1)

	past := time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC)
	cert, key = issue(t, 4, past)
	files.write(t, cert, key)
	expect.Equal(t, serial(), 4, "an expired one is not taken")
	for i, entry := range logs.TakeAll() {
		if entry.ContextMap()["until"] != "2020-01-02T03:04:05Z" || entry.Level != []zapcore.Level{zapcore.InfoLevel, zapcore.WarnLevel}[i] {
			t.Errorf("of an expired one: %v %v", entry.Entry, entry.Context)
		}
	}
	if _, err := loadCertificate(files.cert, files.key, zap.New(core)); err != nil || logs.FilterLevelExact(zapcore.WarnLevel).Len() != 1 {
		t.Errorf("an expired one at the start: %v, %v", err, logs.All())
	}
	logs.TakeAll()

	if runtime.GOOS == "windows" { // where links take a privilege
		return
	}
	for i, folder := range []string{"one", "two"} { // as in Kubernetes
		expect.OK(t, os.Mkdir(filepath.Join(dir, folder), 0o700))
		pairIn(filepath.Join(dir, folder)).put(t, int64(10+i))
	}
	link := func(folder string) {
		expect.OK(t, os.Symlink(folder, filepath.Join(dir, "..new")))
		expect.OK(t, os.Rename(filepath.Join(dir, "..new"), filepath.Join(dir, "..data")))
	}
	link("one")
	linked := pairIn(filepath.Join(dir, "..data"))
	c.files = []string{linked.cert, linked.key}
	want("linked", 10, 1)
	link("two")
	want("linked again", 11, 1)
}

// What serve listens with speaks TLS, of either HTTP, and follows the certificate.
func TestServeTLS(t *testing.T) {
	files := pairIn(t.TempDir())
	cert, _ := files.put(t, 1)
	core, logs := observer.New(zapcore.InfoLevel)
	c := config.Config{Router: config.Router{HTTP: config.HTTP{Addr: "127.0.0.1:0", TLSCert: files.cert, TLSKey: files.key}}}
	w := start(t, c, zap.New(core))
	for _, protocol := range []string{"HTTP/1.1", "HTTP/2.0"} {
		known := x509.NewCertPool()
		known.AppendCertsFromPEM(cert)
		transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: known}, ForceAttemptHTTP2: protocol == "HTTP/2.0"}
		defer transport.CloseIdleConnections()
		for header, status := range map[string]int{"short": 200, strings.Repeat("x", 100<<10): 431} {
			if protocol == "HTTP/2.0" && status != 200 {
				continue // the client refuses to send it
			}
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+w.bound()+"/mcp/ping", nil)
			expect.OK(t, err)
			r.Header.Set("X-Long", header)
			response, err := transport.RoundTrip(r)
			expect.OK(t, err)
			response.Body.Close()
			if response.Proto != protocol || response.StatusCode != status {
				t.Errorf("%s %s, want %d", response.Proto, response.Status, status)
			}
		}
		cert, _ = files.put(t, 2) // for the next connection
	}
	if entry := logs.All()[0]; !strings.HasPrefix(entry.ContextMap()["url"].(string), "https://127.0.0.1:") {
		t.Errorf("logged %v", entry.ContextMap())
	}
	var health strings.Builder // as the image asks for it, which does not know of TLS
	expect.OK(t, CheckHealth(t.Context(), "http://"+w.bound()+"/health", &health))
	expect.Contains(t, health.String(), `"status":"ok"`, "its health is %s", &health)
	old := &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}
	if conn, err := tls.Dial("tcp", w.bound(), old); err == nil {
		conn.Close()
		t.Error("TLS 1.1 is spoken")
	}
}
