package oauth

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

func TestAreaOf(t *testing.T) {
	tests := map[area][]string{
		public:   {"8.8.8.8", "1.1.1.1", "172.15.0.1", "172.32.0.1", "100.128.0.1", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808", "2002:808:808::1"},
		private:  {"10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "100.64.0.1", "198.18.0.1", "fc00::1", "fdff::1", "::ffff:10.0.0.1", "64:ff9b::a00:1", "64:ff9b:1::c0a8:101", "2002:a00:1::1"},
		loopback: {"127.0.0.1", "127.255.255.254", "::1", "::ffff:127.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::1"},
		nowhere: {
			"0.0.0.0", "0.1.2.3", "169.254.169.254", "169.254.1.1", "192.0.0.192", "192.0.2.1", "198.51.100.1", "203.0.113.1", "224.0.0.1", "240.0.0.1", "255.255.255.255",
			"::", "fe80::1", "fe80::1%eth0", "fec0::1", "ff02::1", "2001:db8::1", "2001::1", "100::1", "::127.0.0.1", "4000::1",
			"::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::1", "168.63.129.16", "100.100.100.200", "fd00:ec2::254",
		},
	}
	for want, addresses := range tests {
		for _, ip := range addresses {
			expect.Equal(t, areaOf(netip.MustParseAddr(ip)), want, "%s", ip)
		}
	}
	expect.Equal(t, areaOf(netip.Addr{}), nowhere, "no address has an area")
}

// reachFrom returns the reach of a server. Names resolve to addresses, others to none.
func reachFrom(t *testing.T, server string, addresses map[string][]string) *reach {
	r := reachOf(Server{URL: server})
	r.resolver = resolver(t, addresses)
	return r
}

// resolver returns one that asks a name server of the test, which knows IPv4 addresses only.
func resolver(t *testing.T, addresses map[string][]string) *net.Resolver {
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	expect.OK(t, err)
	done := make(chan struct{})
	t.Cleanup(func() { conn.Close(); <-done })
	go func() {
		defer close(done)
		buf := make([]byte, 4096)
		for {
			n, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			conn.WriteTo(resolve(buf[:n], addresses), from)
		}
	}()
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
}

// resolve answers one question for A records (RFC 1035, section 4).
func resolve(question []byte, addresses map[string][]string) []byte {
	var labels []string
	end := 12
	for question[end] != 0 {
		labels = append(labels, string(question[end+1:end+1+int(question[end])]))
		end += 1 + int(question[end])
	}
	kind := binary.BigEndian.Uint16(question[end+1:])
	answer := append([]byte{}, question[:end+5]...)
	answer[2], answer[3] = 0x81, 0x80
	known, ok := addresses[strings.Join(labels, ".")]
	if !ok {
		answer[3] |= 3 // no such name
	}
	if kind != 1 {
		known = nil
	}
	binary.BigEndian.PutUint16(answer[6:], uint16(len(known)))
	binary.BigEndian.PutUint32(answer[8:], 0)
	for _, ip := range known {
		answer = append(answer, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4)
		answer = append(answer, netip.MustParseAddr(ip).AsSlice()...)
	}
	return answer
}

func TestPermit(t *testing.T) {
	names := map[string][]string{
		"public.example":  {"8.8.8.8"},
		"private.example": {"10.0.0.9", "192.168.1.9"},
		"mixed.example":   {"10.0.0.9", "8.8.8.8"},
		"local.example":   {"127.0.0.1"},
		"cloud.example":   {"169.254.169.254"},
	}
	tests := []struct {
		server string
		most   area
	}{
		{"https://public.example/mcp", public},
		{"https://unknown.example/mcp", public},
		{"https://mixed.example/mcp", public},
		{"https://private.example/mcp", private},
		{"https://local.example/mcp", private}, // who owns the name decides this, so it is not as good as "localhost"
		{"https://cloud.example/mcp", public},
		{"https://8.8.8.8/mcp", public},
		{"https://10.0.0.9/mcp", private},
		{"https://[fd00::9]/mcp", private},
		{"http://localhost:8080/mcp", loopback},
		{"http://LOCALHOST./mcp", loopback},
		{"http://127.0.0.1:8080/mcp", loopback},
		{"http://[::1]:8080/mcp", loopback},
		{"https://169.254.169.254/mcp", public},
	}
	for _, test := range tests {
		r := reachFrom(t, test.server, names)
		for a := public; a <= nowhere; a++ {
			expect.Equal(t, r.permit(t.Context(), hop{host: "host"}, a) == nil, a <= test.most, "server %s, an address that is %v", test.server, a)
		}
	}
	r := reachOf(Server{URL: "https://8.8.8.8/mcp", Settings: Settings{AuthServerMetadataURL: "https://10.0.0.5/meta"}})
	expect.OK(t, r.permit(t.Context(), hop{host: "host"}, private), "an issuer of a private network that the configuration names")
}

func TestCheck(t *testing.T) {
	tests := []struct {
		server, url, text string
	}{
		{"https://mcp.example/mcp", "https://issuer.example/x", ""},
		{"https://mcp.example/mcp", "http://issuer.example/x", "is not https"},
		{"https://mcp.example/mcp", "http://mcp.example/x", "is not https"},
		{"https://mcp.example/mcp", "ftp://issuer.example/x", "is no https url"},
		{"https://mcp.example/mcp", "//issuer.example/x", "is no https url"},
		{"https://mcp.example/mcp", "https:///x", "is no https url"},
		{"https://mcp.example/mcp", "javascript:alert(1)", "is no https url"},
		{"https://mcp.example/mcp", "https://me:hunter2@issuer.example/x", "a name or a password"},
		{"https://8.8.8.8/mcp", "http://127.0.0.1:1/x", "of this machine"},
		{"https://8.8.8.8/mcp", "https://localhost/x", "of this machine"},
		{"https://8.8.8.8/mcp", "https://[::ffff:7f00:1]/x", "of this machine"},
		{"https://8.8.8.8/mcp", "https://10.0.0.5/x", "in a private network"},
		{"https://8.8.8.8/mcp", "https://169.254.169.254/x", "link-local"},
		{"https://10.0.0.9/mcp", "https://10.0.0.5/x", ""},
		{"https://10.0.0.9/mcp", "https://[fd00::5]/x", ""},
		{"https://10.0.0.9/mcp", "http://10.0.0.5/x", "is not https"},
		{"https://10.0.0.9/mcp", "http://127.0.0.1/x", "of this machine"},
		{"https://10.0.0.9/mcp", "https://169.254.169.254/x", "link-local"},
		{"http://127.0.0.1:1/mcp", "http://127.0.0.1:2/x", ""},
		{"http://127.0.0.1:1/mcp", "https://10.0.0.5/x", ""},
		{"http://127.0.0.1:1/mcp", "https://169.254.169.254/x", "link-local"},
		{"https://169.254.1.1/mcp", "https://169.254.1.1:443/x", ""}, // the server itself
		{"https://169.254.1.1/mcp", "https://169.254.1.1:444/x", "link-local"},
	}
	for _, test := range tests {
		u, err := url.Parse(test.url)
		expect.OK(t, err)
		err = reachOf(Server{URL: test.server}).check(t.Context(), u)
		if test.text == "" && err != nil || test.text != "" && (err == nil || !strings.Contains(err.Error(), test.text)) {
			t.Errorf("server %s, %s: %v, want %q", test.server, test.url, err, test.text)
		}
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%v", err)
		}
	}
}

// clientOf returns a client that uses a proxy.
func clientOf(r *reach, proxy func(*http.Request) (*url.URL, error)) *http.Client {
	r.transport.Proxy = proxy
	return r.client()
}

func noProxy(*http.Request) (*url.URL, error) { return nil, nil }

// TestDial has names that resolve to this machine. No URL tells that, only the dial does.
func TestDial(t *testing.T) {
	reached := make(chan string, 10)
	site := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { reached <- r.Host }))
	defer site.Close()
	_, port, _ := net.SplitHostPort(site.Listener.Addr().String())
	names := map[string][]string{"mcp.example": {"8.8.8.8"}, "issuer.example": {"127.0.0.1"}, "self.example": {"127.0.0.1"}}
	tests := []struct {
		server, to string
		want       bool
	}{
		{"https://mcp.example/mcp", "https://issuer.example:" + port, false},
		{"https://self.example/mcp", "https://issuer.example:" + port, false},
		{"https://self.example:" + port + "/mcp", "https://self.example:" + port, true}, // the server itself
		{"https://127.0.0.1/mcp", "https://issuer.example:" + port, true},
	}
	for _, test := range tests {
		c := clientOf(reachFrom(t, test.server, names), noProxy)
		c.Transport.(*reach).transport.TLSClientConfig = &tls.Config{InsecureSkipVerify: true}
		resp, err := c.Get(test.to)
		expect.Equal(t, err == nil, test.want, "server %s, %s: %v", test.server, test.to, err)
		if err == nil {
			resp.Body.Close()
			<-reached
		} else if block, ok := errors.AsType[*blockedError](err); !ok || len(reached) > 0 {
			t.Errorf("server %s, %s: %v, reached %d", test.server, test.to, err, len(reached))
		} else if !strings.Contains(block.Error(), "issuer.example is of this machine") {
			t.Errorf("%v", block)
		}
	}
}

func TestRedirects(t *testing.T) {
	mcp := newSite(t)
	secure := httptest.NewTLSServer(mcp)
	defer secure.Close()
	redirect := func(to string, status int) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			http.SetCookie(w, &http.Cookie{Name: "a", Value: "b"})
			http.Redirect(w, r, to, status)
		}
	}
	mcp.docs["/good"] = redirect("/end", http.StatusFound)
	mcp.docs["/plain"] = redirect(mcp.URL+"/end", http.StatusFound)
	mcp.docs["/post"] = redirect("/end", http.StatusTemporaryRedirect)
	var got *http.Request
	mcp.docs["/end"] = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { got = r })

	c := clientOf(reachOf(Server{URL: mcp.URL + "/mcp"}), noProxy)
	c.Transport.(*reach).transport.TLSClientConfig = &tls.Config{InsecureSkipVerify: true}
	resp, err := c.Get(mcp.URL + "/good")
	expect.OK(t, err)
	resp.Body.Close()
	if got == nil || got.UserAgent() != agent || len(got.Cookies()) > 0 {
		t.Errorf("it was asked %+v", got)
	}
	if _, err = c.Get(secure.URL + "/plain"); err == nil || !strings.Contains(err.Error(), "from https to http") {
		t.Errorf("from https to http: %v", err)
	}
	got = nil
	if _, err = c.PostForm(mcp.URL+"/post", url.Values{"code": {"secret"}}); err == nil || !strings.Contains(err.Error(), "redirects a POST") || got != nil {
		t.Errorf("a POST: %v, sent %v", err, got)
	}
}

// TestRedirectInwards has a redirect to another host of this machine. The server would permit both. A
// proxy is not asked, either.
func TestRedirectInwards(t *testing.T) {
	mcp, other := newSite(t), newSite(t)
	at, err := url.Parse(other.URL)
	expect.OK(t, err)
	other.docs["/"] = http.HandlerFunc(http.RedirectHandler(mcp.URL+"/", http.StatusFound).ServeHTTP)
	for _, proxy := range []func(*http.Request) (*url.URL, error){noProxy, http.ProxyURL(at)} {
		_, err := clientOf(reachOf(Server{URL: mcp.URL + "/mcp"}), proxy).Get(other.URL + "/")
		expect.Error(t, err, "it redirects to 127.0.0.1, which is of this machine")
	}
	expect.Equal(t, len(mcp.paths())+len(other.paths()), 2, "requests")
}

func TestProxy(t *testing.T) {
	asked := make(chan string, 10)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { asked <- r.RequestURI }))
	defer proxy.Close()
	at, err := url.Parse(proxy.URL)
	expect.OK(t, err)
	client := func(server string) *http.Client {
		return clientOf(reachFrom(t, server, nil), http.ProxyURL(at))
	}
	resp, err := client("http://127.0.0.1:1/mcp").Get("http://127.0.0.1:2/x")
	expect.OK(t, err)
	resp.Body.Close()
	expect.Equal(t, <-asked, "http://127.0.0.1:2/x", "the proxy was asked")
	_, err = client("https://mcp.example/mcp").Get("https://issuer.example/x")
	if uri := <-asked; err == nil || uri != "issuer.example:443" {
		t.Errorf("the proxy was asked %s: %v", uri, err)
	}
	for _, to := range []string{"http://127.0.0.1:2/x", "https://10.0.0.5/x", "https://169.254.169.254/x", "http://issuer.example/x"} {
		if _, err = client("https://mcp.example/mcp").Get(to); err == nil || len(asked) > 0 {
			t.Errorf("%s: %v, the proxy was asked %d times", to, err, len(asked))
		}
	}
	wrong := func(*http.Request) (*url.URL, error) { return nil, errors.New("http://me:hunter2@proxy") }
	_, err = clientOf(reachOf(Server{}), wrong).Post("https://mcp.example/", "", strings.NewReader("x"))
	if err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("a wrong proxy: %v", err)
	}
}

func TestBounds(t *testing.T) {
	mcp := newSite(t)
	for path, size := range map[string]int{"/full": maxBody, "/over": maxBody + 1} {
		mcp.docs[path] = answer(200, "text/plain", strings.Repeat("x", size))
	}
	mcp.docs["/slow"] = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	mcp.docs["/headers"] = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Long", strings.Repeat("x", 2*maxHeaders))
	})
	c := NewHTTPClient(Server{URL: mcp.URL + "/mcp"})
	if c.Timeout != 30*time.Second || c.Jar != nil {
		t.Errorf("timeout %v, cookies %v", c.Timeout, c.Jar)
	}
	for path, want := range map[string]error{"/full": nil, "/over": errTooLong} {
		resp, err := c.Get(mcp.URL + path)
		expect.OK(t, err)
		data, err := readAll(resp.Body, 2*maxBody)
		resp.Body.Close()
		if len(data) != maxBody || !errors.Is(err, want) {
			t.Errorf("%s: read %d bytes: %v", path, len(data), err)
		}
	}
	if _, err := c.Get(mcp.URL + "/headers"); err == nil {
		t.Error("endless headers are read")
	}
	c.Timeout = 50 * time.Millisecond
	s := Server{URL: mcp.URL + "/mcp"}
	mcp.docs[pathResource] = mcp.docs["/slow"]
	if found, err := Discover(t.Context(), c, s, Challenge{}); !errors.Is(err, ErrUnreachable) {
		t.Errorf("a server that does not answer: %+v, %v", found, err)
	}
}
