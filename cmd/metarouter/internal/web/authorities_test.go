package web

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/clientauth"
	"github.com/mcp-metarouter/metarouter/internal/signal"
	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

// An authority signs certificates of clients.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func newKeyPair(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	expect.OK(t, err)
	return key
}

func newAuthority(t testing.TB, name string) *authority {
	t.Helper()
	a := &authority{key: newKeyPair(t), certificate: &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}}
	a.certificate = a.sign(t, a.certificate, &a.key.PublicKey)
	return a
}

// sign returns the certificate of a key.
func (a *authority) sign(t testing.TB, template *x509.Certificate, key *ecdsa.PublicKey) *x509.Certificate {
	t.Helper()
	if template.NotAfter.IsZero() {
		template.NotAfter = time.Now().Add(time.Hour)
	}
	if template.SerialNumber == nil {
		template.SerialNumber = big.NewInt(time.Now().UnixNano())
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, key, a.key)
	expect.OK(t, err)
	made, err := x509.ParseCertificate(der)
	expect.OK(t, err)
	return made
}

// client returns a certificate for a client, with its key.
func (a *authority) client(t testing.TB, template x509.Certificate) tls.Certificate {
	t.Helper()
	key := newKeyPair(t)
	if template.ExtKeyUsage == nil {
		template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	}
	made := a.sign(t, &template, &key.PublicKey)
	return tls.Certificate{Certificate: [][]byte{made.Raw}, PrivateKey: key, Leaf: made}
}

func (a *authority) pem() []byte { return pemOf(a.certificate) }

func pemOf(c *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})
}

func named(name string) x509.Certificate {
	return x509.Certificate{Subject: pkix.Name{CommonName: name}}
}

// entry returns the configuration of certificates with the attributes, such as "CN=build".
func entry(profile string, attributes ...string) config.Certificate {
	c := config.Certificate{Subject: strings.Join(attributes, ","), Profile: profile, Role: "use"}
	for _, text := range attributes {
		name, value, _ := strings.Cut(text, "=")
		c.Attributes = append(c.Attributes, clientauth.Attribute{Name: name, Value: value})
	}
	c.Name = c.Subject
	return c
}

// The most specific entry whose parts are all in the certificate decides, and no other.
func TestSubjects(t *testing.T) {
	ca := newAuthority(t, "CA")
	leaf := func(c x509.Certificate) *x509.Certificate { return ca.client(t, c).Leaf }
	spiffe, err := url.Parse("spiffe://example.com/build,1")
	expect.OK(t, err)
	full := leaf(x509.Certificate{
		Subject:  pkix.Name{CommonName: "build", Organization: []string{"Acme", "Emca"}, OrganizationalUnit: []string{"CI"}, Country: []string{"DE"}},
		DNSNames: []string{"b.example.com", "*.example.org"}, EmailAddresses: []string{"b@example.com"}, URIs: []*url.URL{spiffe},
	})
	twice := leaf(x509.Certificate{Subject: pkix.Name{ExtraNames: []pkix.AttributeTypeAndValue{
		{Type: asn1.ObjectIdentifier{2, 5, 4, 3}, Value: "other"}, {Type: asn1.ObjectIdentifier{2, 5, 4, 3}, Value: "build"},
	}}})
	wrong := entry("work", "CN=build", "O=Acme")
	wrong.Name = "" // a mistake
	for _, tt := range []struct {
		what    string
		leaf    *x509.Certificate
		entries []config.Certificate
		want    string // the attributes of the entry, or why there is none
	}{
		{"CN", full, []config.Certificate{entry("work", "CN=build")}, "CN=build"},
		{"O", full, []config.Certificate{entry("work", "O=Emca")}, "O=Emca"},
		{"OU", full, []config.Certificate{entry("work", "OU=CI")}, "OU=CI"},
		{"C", full, []config.Certificate{entry("work", "C=DE")}, "C=DE"},
		{"DNS", full, []config.Certificate{entry("work", "DNS=b.example.com")}, "DNS=b.example.com"},
		{"URI", full, []config.Certificate{entry("work", "URI=spiffe://example.com/build,1")}, "URI=spiffe://example.com/build,1"},
		{"EMAIL", full, []config.Certificate{entry("work", "EMAIL=b@example.com")}, "EMAIL=b@example.com"},
		{"letters", full, []config.Certificate{entry("work", "CN=Build"), entry("work", "O=acme"), entry("work", "DNS=B.example.com")}, "unknown"},
		{"parts of values", full, []config.Certificate{entry("work", "CN=buil"), entry("work", "CN=builder"), entry("work", "URI=spiffe://example.com/build")}, "unknown"},
		{"a wildcard is no name", full, []config.Certificate{entry("work", "DNS=a.example.org")}, "unknown"},
		{"another kind of name", full, []config.Certificate{entry("work", "DNS=build"), entry("work", "CN=b.example.com"), entry("work", "SERIAL=1")}, "unknown"},
		{"one part is missing", full, []config.Certificate{entry("work", "CN=build", "O=Other")}, "unknown"},
		{"the most specific", full, []config.Certificate{entry("work", "CN=build"), entry("ops", "CN=build", "O=Acme"), entry("work", "O=Acme")}, "CN=build,O=Acme"},
		{"equally specific", full, []config.Certificate{entry("work", "CN=build"), entry("work", "O=Acme")}, "ambiguous"},
		{"equally specific, next to a less specific one", full, []config.Certificate{entry("work", "CN=build"), entry("work", "CN=build", "OU=CI"), entry("work", "CN=build", "O=Acme")}, "ambiguous"},
		{"a more specific one decides", full, []config.Certificate{entry("work", "CN=build"), entry("work", "O=Acme"), entry("work", "OU=CI", "O=Emca")}, "OU=CI,O=Emca"},
		{"a mistake in the most specific", full, []config.Certificate{entry("work", "CN=build"), wrong}, "refused"},
		{"a profile that does not exist", full, []config.Certificate{entry("work", "CN=build"), entry("gone", "CN=build", "O=Acme")}, "refused"},
		{"no profile", full, []config.Certificate{entry("", "CN=build")}, "CN=build"},
		{"a mistake without attributes", full, []config.Certificate{{}}, "unknown"},
		{"two common names", twice, []config.Certificate{entry("work", "CN=build")}, "unknown"},
		{"no common name", leaf(x509.Certificate{DNSNames: []string{"b"}}), []config.Certificate{entry("work", "CN=")}, "unknown"},
		{"no entry", full, nil, "unknown"},
	} {
		r := routerWith()
		r.HTTP.Certificates = tt.entries
		hash, why := find(tt.leaf, subjectsOf(r))
		got := "known"
		for said, name := range map[string]string{"no entry": "unknown", "several": "ambiguous", "mistake": "refused"} {
			if strings.Contains(why, said) {
				got = name
			}
		}
		for _, c := range tt.entries {
			if why == "" && hash == hashOf(c) {
				got = c.Subject
			}
		}
		if got != tt.want || (hash != "") != (why == "") {
			t.Errorf("%s: %s %q, want %s", tt.what, got, hash, tt.want)
		}
	}
	if hashOf(entry("a", "CN=b", "O=c")) != hashOf(entry("d", "O=c", "CN=b")) || hashOf(entry("a", "CN=b")) == hashOf(entry("a", "CN=c")) {
		t.Error("the hash is not that of the attributes")
	}
	if plainToken("certificate\x00CN=build").Hash == hashOf(entry("", "CN=build")) {
		t.Error("a text that everyone can write down is a token of the principal")
	}
}

// A file of authorities has certificates only, all of them whole.
func TestParseAuthorities(t *testing.T) {
	one, two := newAuthority(t, "one").pem(), newAuthority(t, "two").pem()
	key := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte("x")})
	for _, tt := range []struct {
		what, text string
		want       string // in the error
	}{
		{"one", string(one), ""},
		{"two, with comments", "# one\n" + string(one) + "# two\n" + string(two) + "\n# end\n", ""},
		{"none", "", "no certificate"},
		{"text", "hello", "no certificate"},
		{"a key", string(key), "PRIVATE KEY"},
		{"a certificate and a key", string(one) + string(key), "PRIVATE KEY"},
		{"half of the second", string(one) + string(two[:len(two)/2]), "not whole"},
		{"nonsense in PEM", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("x")})), "its certificate 1"},
	} {
		if p, err := clientauth.Authorities([]byte(tt.text)); (err != nil) != (tt.want != "") || err != nil && (!strings.Contains(err.Error(), tt.want) || p != nil) {
			t.Errorf("%s: %v", tt.what, err)
		}
	}
}

// A certified is a router that asks its clients for certificates.
type certified struct {
	*running
	ca     *authority
	config config.Config
	known  *x509.CertPool // of the router's own certificate
	file   string         // of the authorities
}

const fixedToken = "0123456789abcdef"

// startCertified starts a router that certificates of "CN=build" let in, and a token.
func startCertified(t *testing.T, log *zap.Logger) *certified {
	t.Setenv("METAROUTER_TOKEN", "")
	dir := t.TempDir()
	files := pairIn(dir)
	cert, _ := files.put(t, 1)
	c := &certified{ca: newAuthority(t, "one"), known: x509.NewCertPool(), file: filepath.Join(dir, "ca.pem")}
	c.known.AppendCertsFromPEM(cert)
	write(t, c.file, c.ca.pem())
	c.config.Router = routerWith()
	c.config.Router.HTTP = config.HTTP{
		Addr: "127.0.0.1:0", TLSCert: files.cert, TLSKey: files.key, ClientCA: c.file, Tokens: tokens(fixedToken),
		Certificates: []config.Certificate{entry("work", "CN=build"), entry("gone", "CN=broken"), entry("work", "O=a"), entry("work", "O=b")},
	}
	c.running = start(t, c.config, log)
	return c
}

// dialer returns a client with the certificates, of HTTP/1 or of HTTP/2. It keeps its connection.
func (c *certified) dialer(t *testing.T, http2 bool, own ...tls.Certificate) *http.Client {
	transport := &http.Transport{
		ForceAttemptHTTP2: http2,
		TLSClientConfig: &tls.Config{
			RootCAs: c.known, ClientSessionCache: tls.NewLRUClientSessionCache(10),
			GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { // also one that the router does not ask for
				if len(own) == 0 {
					return &tls.Certificate{}, nil
				}
				return &own[0], nil
			},
		},
	}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: time.Minute}
}

// ping returns the status of a request, or "no connection".
func (c *certified) ping(t *testing.T, client *http.Client, authorization string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+c.bound()+"/mcp/ping", nil)
	expect.OK(t, err)
	if authorization != "" {
		r.Header.Set("Authorization", authorization)
	}
	answer, err := client.Do(r)
	if err != nil {
		return "no connection"
	}
	defer answer.Body.Close()
	io.Copy(io.Discard, answer.Body)
	if answer.TLS.DidResume {
		t.Error("a TLS session was resumed")
	}
	return fmt.Sprint(answer.StatusCode)
}

// Certificates let clients in over TLS next to tokens.
func TestClientCertificates(t *testing.T) {
	core, logs := observer.New(zap.WarnLevel)
	c := startCertified(t, zap.New(core))
	other := newAuthority(t, "one") // with the name of the right one
	usage := named("build")
	usage.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	past := named("build")
	past.NotAfter = time.Now().Add(-time.Minute)
	future := named("build")
	future.NotBefore = time.Now().Add(time.Minute)
	both := x509.Certificate{Subject: pkix.Name{Organization: []string{"a", "b"}}}
	selfSigned := newAuthority(t, "build")
	for _, http2 := range []bool{false, true} {
		for _, tt := range []struct {
			what          string
			own           []tls.Certificate
			authorization string
			want          string
		}{
			{"a certificate", []tls.Certificate{c.ca.client(t, named("build"))}, "", "200"},
			{"nothing", nil, "", "401"},
			{"a token alone", nil, "Bearer " + fixedToken, "200"},
			{"a token with a certificate that is not mapped", []tls.Certificate{c.ca.client(t, named("other"))}, "Bearer " + fixedToken, "200"},
			{"a wrong token with a certificate", []tls.Certificate{c.ca.client(t, named("build"))}, "Bearer wrong", "401"},
			{"the text of the principal's hash", nil, "Bearer certificate\tCN=build", "401"},
			{"another subject", []tls.Certificate{c.ca.client(t, named("other"))}, "", "401"},
			{"an ambiguous subject", []tls.Certificate{c.ca.client(t, both)}, "", "401"},
			{"a profile that does not exist", []tls.Certificate{c.ca.client(t, named("broken"))}, "", "401"},
			{"another authority", []tls.Certificate{other.client(t, named("build"))}, "", "no connection"},
			{"another authority, with a token", []tls.Certificate{other.client(t, named("build"))}, "Bearer " + fixedToken, "no connection"},
			{"signed by itself", []tls.Certificate{{Certificate: [][]byte{selfSigned.certificate.Raw}, PrivateKey: selfSigned.key}}, "", "no connection"},
			{"expired", []tls.Certificate{c.ca.client(t, past)}, "", "no connection"},
			{"not yet valid", []tls.Certificate{c.ca.client(t, future)}, "", "no connection"},
			{"for servers", []tls.Certificate{c.ca.client(t, usage)}, "", "no connection"},
		} {
			expect.Equal(t, c.ping(t, c.dialer(t, http2, tt.own...), tt.authorization), tt.want, "%s, HTTP/2 %v", tt.what, http2)
		}
	}
	boss, r := entry("work", "CN=boss"), c.config.Router
	boss.Role = "admin"
	r.HTTP.Certificates = append(r.HTTP.Certificates, boss)
	all := c.principals(r)
	for _, e := range r.HTTP.Certificates {
		want := clientauth.Principal{Hash: hashOf(e), Name: e.Subject, Profile: "work", Admin: e.Role == "admin"}
		expect.Equal(t, slices.Contains(all, want), e.Profile == "work", "%s: the principals are %+v", e.Subject, all)
	}
	expect.Equal(t, logs.FilterMessageSnippet("does not let it in").Len(), 1, "times the log says that certificates let no one in")
}

// An edit that removes an entry, or the authorities, ends what its certificates may, on open
// connections too. The token of another client goes on.
func TestEditOfCertificates(t *testing.T) {
	c := startCertified(t, zap.NewNop())
	build, ci := c.dialer(t, false, c.ca.client(t, named("build"))), c.dialer(t, false)
	check := func(what, want string) {
		t.Helper()
		expect.Equal(t, c.ping(t, build, ""), want, "%s", what)
		expect.Equal(t, c.ping(t, ci, "Bearer "+fixedToken), "200", "%s: the token", what)
	}
	check("at first", "200")
	for what, change := range map[string]func(*config.Router){
		"without the entry":   func(r *config.Router) { r.HTTP.Certificates = r.HTTP.Certificates[1:] },
		"without any entry":   func(r *config.Router) { r.HTTP.Certificates = nil },
		"without authorities": func(r *config.Router) { r.HTTP.ClientCA = "" },
		"other authorities":   func(r *config.Router) { r.HTTP.ClientCA = filepath.Join(filepath.Dir(c.file), "other.pem") },
		"without the profile": func(r *config.Router) { r.Profiles = nil },
		"a mistake":           func(r *config.Router) { r.HTTP.Certificates = []config.Certificate{{}} },
		"without all tokens":  func(r *config.Router) { r.HTTP.Certificates = nil; r.HTTP.ClientCA = "" },
	} {
		edited := c.config
		change(&edited.Router)
		c.edit(edited)
		check(what, "401")
		c.edit(c.config)
		check(what+", undone", "200")
	}
}

// A client that comes again shows its certificate again: no TLS session is resumed, in which an
// authority would stay trusted that was removed.
func TestNoResumption(t *testing.T) {
	c := startCertified(t, zap.NewNop())
	signed := c.ca.client(t, named("build"))
	for _, http2 := range []bool{false, true} {
		client := c.dialer(t, http2, signed)
		for range 3 {
			expect.Equal(t, c.ping(t, client, ""), "200") // and it looks for resumption
			client.CloseIdleConnections()
		}
	}
}

// Without tokens, authorities and certificates keep the router from being public.
func TestCertificatesGuard(t *testing.T) {
	t.Setenv("METAROUTER_TOKEN", "")
	l := listening(t, config.HTTP{Addr: "127.0.0.1:0"}, zap.NewNop())
	for what, h := range map[string]config.HTTP{
		"authorities":           {ClientCA: "ca.pem"},
		"an entry":              {Certificates: []config.Certificate{entry("", "CN=build")}},
		"a mistake in an entry": {Certificates: []config.Certificate{{}}},
	} {
		all := l.principals(config.Router{HTTP: h})
		if len(all) == 0 {
			t.Errorf("%s: the router is public", what)
		}
		for _, p := range all {
			expect.Equal(t, p.Hash, "", "%s: lets in %+v, without TLS", what, p)
		}
	}
}

// The file of the authorities is followed. What a removed one has signed ends: requests, and
// their streams. While the file is broken, it stays as it was.
func TestEditOfAuthorities(t *testing.T) {
	core, logs := observer.New(zap.InfoLevel)
	c := startCertified(t, zap.New(core))
	next := newAuthority(t, "two")
	signed := c.ca.client(t, named("build"))
	old, token := c.dialer(t, false, signed), c.dialer(t, false)
	check := func(what, want string, client *http.Client) {
		t.Helper()
		expect.Equal(t, c.ping(t, client, ""), want, "%s", what)
	}
	check("at first", "200", old)
	expect.Equal(t, c.ping(t, token, "Bearer "+fixedToken), "200", "a token")
	ended := c.stream(t, signed)
	write := func(t *testing.T, path string, data []byte) { // at once, since the file is read all the time
		write(t, path+".new", data)
		expect.OK(t, os.Rename(path+".new", path))
	}
	for what, text := range map[string]string{"nonsense": "nonsense", "nothing": "", "half": string(next.pem()[:100])} {
		said := logs.FilterMessageSnippet("can't be read again").Len()
		write(t, c.file, []byte(text))
		mcptest.WaitFor(t, "a log line about "+what+", since another request may read the file", func() bool {
			check(what, "200", c.dialer(t, false, signed))
			return logs.FilterMessageSnippet("can't be read again").Len() > said
		})
		check(what+", of another authority", "no connection", c.dialer(t, false, next.client(t, named("build"))))
	}
	expect.Equal(t, logs.FilterMessageSnippet("can't be read again").Len(), 3, "times the log says that the file is broken")

	write(t, c.file, append(c.ca.pem(), next.pem()...))
	check("with both", "200", old)
	mcptest.WaitFor(t, "the next one, since another request may read the file", func() bool { return c.ping(t, c.dialer(t, true, next.client(t, named("build"))), "") == "200" })
	if signal.IsClosed(ended) {
		t.Fatal("a stream ends whose authority stays")
	}

	renewed := &authority{key: c.ca.key, certificate: c.ca.sign(t, &x509.Certificate{
		Subject: c.ca.certificate.Subject, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}, &c.ca.key.PublicKey)}
	write(t, c.file, renewed.pem())
	check("a renewed one, on its connection", "200", old)
	check("a renewed one, again", "200", c.dialer(t, false, signed))

	write(t, c.file, next.pem())
	<-ended
	check("a removed one, on its connection", "401", old)
	check("a removed one, again", "no connection", old)
	check("the new one", "200", c.dialer(t, false, next.client(t, named("build"))))
	expect.Equal(t, c.ping(t, token, "Bearer "+fixedToken), "200", "a token")
	expect.Equal(t, logs.FilterMessageSnippet("a request is refused").Len(), 1, "times the log says so")
}

// Streams end when the certificate of their client expires, and its requests are refused.
func TestExpiryOfOpenConnection(t *testing.T) {
	c := startCertified(t, zap.NewNop())
	ended := c.stream(t, c.ca.client(t, named("build")))
	client := c.dialer(t, true, c.ca.client(t, named("build")))
	c.later.Store(int64(59 * time.Minute))
	expect.Equal(t, c.ping(t, client, ""), "200", "before the certificate expires")
	if signal.IsClosed(ended) {
		t.Fatal("a stream ends before its certificate expires")
	}
	c.later.Store(int64(61 * time.Minute))
	<-ended
	expect.Equal(t, c.ping(t, client, ""), "401", "when it has expired")
}

// stream opens a stream of events with a certificate. ended is closed when it ends.
func (c *certified) stream(t *testing.T, own tls.Certificate) (ended chan struct{}) {
	t.Helper()
	client := c.dialer(t, false, own)
	client.Timeout = 0
	const listen = `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},
		"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+c.bound()+"/mcp", strings.NewReader(listen))
	expect.OK(t, err)
	r.Header = http.Header{
		"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"},
		"Mcp-Protocol-Version": {"2026-07-28"}, "Mcp-Method": {"subscriptions/listen"},
	}
	stream, err := client.Do(r)
	expect.OK(t, err)
	if stream.StatusCode != http.StatusOK {
		t.Fatal(stream.Status)
	}
	ended = make(chan struct{})
	go func() {
		defer close(ended)
		defer stream.Body.Close()
		io.Copy(io.Discard, stream.Body)
	}()
	return ended
}

// At the start the file of the authorities must be good.
func TestAuthoritiesAtStart(t *testing.T) {
	dir := t.TempDir()
	files, file := pairIn(dir), filepath.Join(dir, "ca.pem")
	files.put(t, 1)
	h := config.HTTP{Addr: "127.0.0.1:0", TLSCert: files.cert, TLSKey: files.key, ClientCA: file, Certificates: []config.Certificate{entry("", "CN=build")}}
	try := func(want string) {
		t.Helper()
		_, err := New(h, Flags{}, nil, zap.NewNop())
		if (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	try("ca.pem")
	write(t, file, nil)
	try("no certificate")
	write(t, file, newAuthority(t, "one").pem())
	try("")
}
