package web

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
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
)

// issue returns a certificate of the serial number for 127.0.0.1, and its key.
func issue(t *testing.T, serial int64) (cert, key []byte) {
	t.Helper()
	return issueUntil(t, serial, time.Now().Add(time.Hour))
}

func issueUntil(t *testing.T, serial int64, until time.Time) (cert, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), NotAfter: until,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded})
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// A certificate is followed however it is renewed, and one that is broken is not.
func TestCertificate(t *testing.T) {
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	put := func(serial int64) { // by writing over the files
		cert, key := issue(t, serial)
		write(t, certFile, cert)
		write(t, keyFile, key)
	}
	if _, err := loadCertificate(certFile, keyFile, zap.NewNop()); err == nil || !strings.Contains(err.Error(), "cert.pem") {
		t.Errorf("of no file: %v", err)
	}
	put(1)
	core, logs := observer.New(zapcore.InfoLevel)
	c, err := loadCertificate(certFile, keyFile, zap.New(core))
	if err != nil {
		t.Fatal(err)
	}
	serial := func() int64 {
		t.Helper()
		return c.get().Leaf.SerialNumber.Int64()
	}
	put(2)
	if got := serial(); got != 1 {
		t.Errorf("looked at once more at once: %d", got)
	}
	c.every = 0
	want := func(step string, serials int64, messages int) {
		t.Helper()
		for range 3 {
			if got := serial(); got != serials {
				t.Errorf("%s: the certificate is %d, want %d", step, got, serials)
			}
		}
		if n := len(logs.TakeAll()); n != messages {
			t.Errorf("%s: %d messages, want %d", step, n, messages)
		}
	}
	want("written", 2, 1)

	cert, key := issue(t, 3)
	write(t, certFile+".new", cert)
	if err := os.Rename(certFile+".new", certFile); err != nil {
		t.Fatal(err)
	}
	want("the certificate without its key", 2, 1)
	write(t, keyFile, key)
	want("with its key", 3, 1)

	write(t, certFile, []byte("nonsense"))
	want("nonsense", 3, 1)
	os.Remove(keyFile)
	want("no key", 3, 1)
	write(t, certFile, cert)
	write(t, keyFile, key)
	want("repaired", 3, 1)

	past := time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC)
	cert, key = issueUntil(t, 4, past)
	write(t, certFile, cert)
	write(t, keyFile, key)
	if got := serial(); got != 4 {
		t.Errorf("an expired one is not taken: %d", got)
	}
	for i, entry := range logs.TakeAll() {
		if entry.ContextMap()["until"] != "2020-01-02T03:04:05Z" || entry.Level != []zapcore.Level{zapcore.InfoLevel, zapcore.WarnLevel}[i] {
			t.Errorf("of an expired one: %v %v", entry.Entry, entry.Context)
		}
	}
	if _, err := loadCertificate(certFile, keyFile, zap.New(core)); err != nil || logs.FilterLevelExact(zapcore.WarnLevel).Len() != 1 {
		t.Errorf("an expired one at the start: %v, %v", err, logs.All())
	}
	logs.TakeAll()

	if runtime.GOOS == "windows" { // where links take a privilege
		return
	}
	for i, folder := range []string{"one", "two"} { // as in Kubernetes
		cert, key := issue(t, int64(10+i))
		if err := os.Mkdir(filepath.Join(dir, folder), 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, folder, "cert.pem"), cert)
		write(t, filepath.Join(dir, folder, "key.pem"), key)
	}
	link := func(folder string) {
		if err := os.Symlink(folder, filepath.Join(dir, "..new")); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(dir, "..new"), filepath.Join(dir, "..data")); err != nil {
			t.Fatal(err)
		}
	}
	link("one")
	c.certFile, c.keyFile = filepath.Join(dir, "..data", "cert.pem"), filepath.Join(dir, "..data", "key.pem")
	want("linked", 10, 1)
	link("two")
	want("linked again", 11, 1)
}

// What serve listens with speaks TLS, of either HTTP, and follows the certificate.
func TestServeTLS(t *testing.T) {
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	put := func(serial int64) []byte {
		cert, key := issue(t, serial)
		write(t, certFile, cert)
		write(t, keyFile, key)
		return cert
	}
	cert := put(1)
	core, logs := observer.New(zapcore.InfoLevel)
	c := config.Config{Router: config.Router{HTTP: config.HTTP{Addr: "127.0.0.1:0", TLSCert: certFile, TLSKey: keyFile}}}
	w := start(t, c, zap.New(core))
	if entry := logs.All()[0]; !strings.HasPrefix(entry.ContextMap()["url"].(string), "https://127.0.0.1:") {
		t.Errorf("logged %v", entry.ContextMap())
	}
	url := "https://" + w.listener.Addr().String() + "/mcp"
	for _, protocol := range []string{"HTTP/1.1", "HTTP/2.0"} {
		known := x509.NewCertPool()
		known.AppendCertsFromPEM(cert)
		transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: known}, ForceAttemptHTTP2: protocol == "HTTP/2.0"}
		defer transport.CloseIdleConnections()
		client := &http.Client{Transport: transport}
		response, err := client.Post(url+"/ping", "", nil)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(response.Body)
		response.Body.Close()
		if response.Proto != protocol || string(body) != `{"status":"ok"}` {
			t.Errorf("%s %s", response.Proto, body)
		}
		if protocol == "HTTP/1.1" {
			long, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/ping", nil)
			long.Header.Set("X-Long", strings.Repeat("x", 100<<10))
			refused, err := client.Do(long)
			if err != nil {
				t.Fatal(err)
			}
			refused.Body.Close()
			if refused.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
				t.Errorf("a long header: %s", refused.Status)
			}
		}
		// Events are sent as they come.
		opening, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, url, bytes.NewReader([]byte(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{}}}`)))
		opening.Header.Set("Content-Type", "application/json")
		opening.Header.Set("Accept", "application/json, text/event-stream")
		opened, err := client.Do(opening)
		if err != nil {
			t.Fatal(err)
		}
		opened.Body.Close()
		listening, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		listening.Header.Set("Accept", "text/event-stream")
		listening.Header.Set("Mcp-Session-Id", opened.Header.Get("Mcp-Session-Id"))
		stream, err := client.Do(listening)
		if err != nil {
			t.Fatal(err)
		}
		first := make([]byte, len(": open"))
		if _, err := io.ReadFull(stream.Body, first); err != nil || string(first) != ": open" {
			t.Errorf("the stream begins with %q, %v", first, err)
		}
		stream.Body.Close()
		cert = put(2) // for the next connection
	}
	old := &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}
	if conn, err := tls.Dial("tcp", w.listener.Addr().String(), old); err == nil {
		conn.Close()
		t.Error("TLS 1.1 is spoken")
	}
}
