//go:build linux

package hostile

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A site is a hostile server over HTTP: an ordinary one whose behaviour a kind replaces in part.
type site struct {
	url string

	// handle handles a request instead of the ordinary server, if it returns true.
	handle func(w http.ResponseWriter, r *http.Request, m message) bool
	// accept takes whole connections instead of requests.
	accept func(net.Conn)
}

// newSite starts a site, which ends with the test.
func newSite(t *testing.T, kind func(*site)) *site {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &site{url: "http://" + l.Addr().String() + "/mcp"}
	kind(s)
	if s.accept != nil {
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				go func() {
					defer c.Close()
					c.SetDeadline(time.Now().Add(playerLifetime))
					s.accept(c)
				}()
			}
		}()
		t.Cleanup(func() { l.Close() })
		return s
	}
	server := &http.Server{Handler: s}
	go server.Serve(l)
	t.Cleanup(func() { server.Close() })
	return s
}

func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var m message
	json.Unmarshal(body, &m)
	if s.handle != nil && s.handle(w, r, m) {
		return
	}
	s.usual(w, r, m)
}

// usual is the ordinary server.
func (s *site) usual(w http.ResponseWriter, r *http.Request, m message) {
	w.Header().Set("Mcp-Session-Id", "session")
	switch {
	case r.Method != http.MethodPost:
		w.WriteHeader(http.StatusMethodNotAllowed)
	case m.ID == nil:
		w.WriteHeader(http.StatusAccepted)
	default:
		answerJSON(w, m, usualResult(m))
	}
}

func usualResult(m message) string {
	switch m.Method {
	case "initialize":
		return `{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"site","version":"1"}}`
	case "tools/list":
		return `{"tools":[` + attackTool + `]}`
	case "tools/call":
		return text("attacked")
	case "ping":
		return `{}`
	}
	return ""
}

func answerJSON(w http.ResponseWriter, m message, result string) {
	w.Header().Set("Content-Type", "application/json")
	io.WriteString(w, response(m, result))
}

func response(m message, result string) string {
	if result == "" {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"Method not found"}}`, m.ID)
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
}

// sites are the hostile servers over HTTP.
var sites = map[string]kind{
	"HTTP redirect to a metadata address": site302("http://169.254.169.254/latest/meta-data/"),
	"HTTP redirect to a file":             site302("file:///etc/passwd"),
	"HTTP redirect of 1 MB":               site302("/" + strings.Repeat("x", 1<<20)),
	"HTTP redirect to itself":             site302("/mcp"),
	"HTTP redirect to another host": {named: []string{"doctor: "}, serve: func(s *site) {
		s.handle = func(w http.ResponseWriter, r *http.Request, m message) bool {
			if r.URL.Path != "/other" {
				w.Header().Set("Location", strings.NewReplacer("127.0.0.1", "localhost", "/mcp", "/other").Replace(s.url))
				w.WriteHeader(http.StatusTemporaryRedirect)
				return true
			}
			return false
		}
	}},
	"HTTP events without an end": {named: []string{"did not answer"}, serve: onCallHTTP(func(w http.ResponseWriter, r *http.Request, m message) {
		streaming(w)
		for r.Context().Err() == nil {
			fmt.Fprint(w, ": a comment\n\n", strings.Repeat("data: \n\n", 1000))
		}
	})},
	"HTTP event of GBs": {slow: true, named: []string{"answer: "}, serve: onCallHTTP(func(w http.ResponseWriter, r *http.Request, m message) {
		streaming(w)
		block := []byte(strings.Repeat("x", 1<<20))
		fmt.Fprint(w, "data: ")
		for r.Context().Err() == nil {
			w.Write(block)
		}
	})},
	"HTTP event of many lines": {slow: true, named: []string{"answer: "}, serve: onCallHTTP(func(w http.ResponseWriter, r *http.Request, m message) {
		streaming(w)
		block := []byte(strings.Repeat("data: x\n", 1<<17))
		for r.Context().Err() == nil {
			w.Write(block)
		}
	})},
	"HTTP event of an endless field": {slow: true, named: []string{"answer: "}, serve: onCallHTTP(func(w http.ResponseWriter, r *http.Request, m message) {
		streaming(w)
		fmt.Fprint(w, "id: ")
		block := []byte(strings.Repeat("i", 1<<20))
		for r.Context().Err() == nil {
			w.Write(block)
		}
	})},
	"HTTP events with huge ids": {serve: onCallHTTP(func(w http.ResponseWriter, r *http.Request, m message) {
		streaming(w)
		for range 20 {
			fmt.Fprintf(w, "id: %s\nevent: message\ndata:\n\n", strings.Repeat("i", 1<<20))
		}
		fmt.Fprintf(w, "id: \x00\x1b\ndata: %s\n\n", response(m, text("done")))
	})},
	"HTTP stream that ends at once": {named: []string{"answer: "}, serve: onCallHTTP(func(w http.ResponseWriter, r *http.Request, m message) {
		streaming(w)
		fmt.Fprint(w, "retry: 0\nid: 1\ndata:\n\n")
	})},
	"HTTP stream with a retry of years": {named: []string{"answer: "}, serve: onCallHTTP(func(w http.ResponseWriter, r *http.Request, m message) {
		streaming(w)
		fmt.Fprint(w, "retry: 99999999999999999999\nid: 1\ndata:\n\n")
	})},
	"HTTP flood of notifications": {named: []string{"doctor: ", "log: "}, serve: func(s *site) {
		s.handle = func(w http.ResponseWriter, r *http.Request, m message) bool {
			if r.Method != http.MethodGet {
				return false
			}
			streaming(w)
			for r.Context().Err() == nil {
				fmt.Fprint(w, strings.Repeat("data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n\n", 100))
			}
			return true
		}
	}},
	"HTTP flood of questions": {asks: true, check: fewQuestions, named: []string{"doctor: metarouter has refused"}, serve: onCallHTTP(func(w http.ResponseWriter, r *http.Request, m message) {
		streaming(w)
		for i := range 2000 {
			fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%d,\"method\":\"elicitation/create\",\"params\":%s}\n\n", i, elicitation)
		}
		fmt.Fprintf(w, "data: %s\n\n", response(m, text("done")))
	})},
	"HTTP bomb of gzip": {slow: true, named: []string{"answer: "}, serve: onCallHTTP(func(w http.ResponseWriter, r *http.Request, m message) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Encoding", "gzip")
		w.Write(bomb())
	})},
	"HTTP bomb of gzip in the handshake": {slow: true, named: []string{"doctor: "}, serve: func(s *site) {
		s.handle = func(w http.ResponseWriter, r *http.Request, m message) bool {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Content-Encoding", "gzip")
			w.Write(bomb())
			return true
		}
	}},
	"HTTP answer a byte a second": {named: []string{"did not answer"}, serve: onCallHTTP(func(w http.ResponseWriter, r *http.Request, m message) {
		w.Header().Set("Content-Type", "application/json")
		for _, b := range []byte(response(m, text("slow"))) {
			w.Write([]byte{b})
			w.(http.Flusher).Flush()
			select {
			case <-r.Context().Done():
				return
			case <-time.After(time.Second):
			}
		}
	})},
	"HTTP headers without an end": {named: []string{"doctor: "}, serve: func(s *site) {
		s.accept = func(c net.Conn) {
			fmt.Fprint(c, "HTTP/1.1 200 OK\r\n")
			for i := 0; ; i++ {
				if _, err := fmt.Fprintf(c, "X-%d: %s\r\n", i, strings.Repeat("x", 1000)); err != nil {
					return
				}
			}
		}
	}},
	"HTTP 100 Continue without an end": {named: []string{"doctor: "}, serve: func(s *site) {
		s.accept = func(c net.Conn) {
			for {
				if _, err := fmt.Fprint(c, strings.Repeat("HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n", 100)); err != nil {
					return
				}
			}
		}
	}},
	"HTTP connection that is silent": {named: []string{"doctor: "}, serve: func(s *site) { s.accept = func(c net.Conn) { io.Copy(io.Discard, c) } }},
	"HTTP connection that is closed": {named: []string{"doctor: "}, serve: func(s *site) { s.accept = func(net.Conn) {} }},
	"HTTP connection with noise": {named: []string{"doctor: "}, serve: func(s *site) {
		s.accept = func(c net.Conn) { io.WriteString(c, strings.Repeat("SSH-2.0-x\x00\xff", 10_000)) }
	}},
	"HTTP body shorter than announced": {named: []string{"answer: "}, serve: onCallHTTP(func(w http.ResponseWriter, r *http.Request, m message) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", "1000000000")
		io.WriteString(w, response(m, text("short")))
	})},
	"HTTP body of 300 MB": {slow: true, named: []string{"answer: "}, serve: onCallHTTP(func(w http.ResponseWriter, r *http.Request, m message) {
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"jsonrpc":"2.0","id":`+string(m.ID)+`,"result":{"content":[{"type":"text","text":"`)
		block := []byte(strings.Repeat("x", 1<<20))
		for range 300 {
			w.Write(block)
		}
		io.WriteString(w, `"}]}}`)
	})},
	"HTTP page instead of an answer": {named: []string{"doctor: "}, serve: func(s *site) {
		s.handle = func(w http.ResponseWriter, r *http.Request, m message) bool {
			fmt.Fprint(w, "<html>"+strings.Repeat("<p>Log in, please.</p>", 10_000))
			return true
		}
	}},
	"HTTP with odd content types": {serve: onCallHTTP(func(w http.ResponseWriter, r *http.Request, m message) {
		w.Header().Set("Content-Type", "text/event-stream-but-not; charset="+strings.Repeat("x", 10_000))
		io.WriteString(w, response(m, text("odd")))
	})},
	"HTTP 429 with a Retry-After of years": siteStatus(429, "Retry-After", "99999999999"),
	"HTTP 503 with a Retry-After of years": siteStatus(503, "Retry-After", "Fri, 31 Dec 9999 23:59:59 GMT"),
	"HTTP 401 always":                      siteStatus(401, "WWW-Authenticate", `Bearer resource_metadata="http://169.254.169.254/`+strings.Repeat("x", 1000)+`"`),
	"HTTP 404 always":                      siteStatus(404, "X", "x"),
	"HTTP 500 always":                      siteStatus(500, "X", "x"),
	"HTTP 202 for requests":                siteStatus(202, "X", "x"),
	"HTTP 204 for requests":                siteStatus(204, "X", "x"),
	"HTTP 401 for calls": {named: []string{"answer: "}, serve: onCallHTTP(func(w http.ResponseWriter, r *http.Request, m message) {
		w.WriteHeader(http.StatusUnauthorized)
	})},
	"HTTP session lost at each call": {named: []string{"doctor: it runs now, but before"}, serve: onCallHTTP(func(w http.ResponseWriter, r *http.Request, m message) {
		w.WriteHeader(http.StatusNotFound)
	})},
	"HTTP new session id in each answer": {serve: func(s *site) {
		var n atomic.Int64
		s.handle = func(w http.ResponseWriter, r *http.Request, m message) bool {
			if m.ID == nil {
				return false
			}
			w.Header().Set("Mcp-Session-Id", fmt.Sprintf("%d-%s", n.Add(1), strings.Repeat("s", 4000)))
			answerJSON(w, m, usualResult(m))
			return true
		}
	}},
	"HTTP session id of 500 KB": {serve: func(s *site) {
		s.handle = func(w http.ResponseWriter, r *http.Request, m message) bool {
			if m.ID == nil {
				return false
			}
			w.Header().Set("Mcp-Session-Id", strings.Repeat("s", 500<<10))
			answerJSON(w, m, usualResult(m))
			return true
		}
	}},
	"HTTP cookies and headers in answers": {serve: onCallHTTP(func(w http.ResponseWriter, r *http.Request, m message) {
		for i := range 200 {
			w.Header().Add("Set-Cookie", fmt.Sprintf("c%d=%s", i, strings.Repeat("c", 1000)))
		}
		w.Header().Set("Access-Control-Allow-Origin", "*")
		answerJSON(w, m, text("cookies"))
	})},
}

// bomb is a gzip of a string of 1 GiB, which never ends as JSON: a member with its beginning,
// and the same member of 1 MiB again and again.
var bomb = sync.OnceValue(func() []byte {
	member := func(s string) []byte {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		io.WriteString(z, s)
		z.Close()
		return b.Bytes()
	}
	return append(member(`{"jsonrpc":"2.0","id":1,"result":{"x":"`), bytes.Repeat(member(strings.Repeat("x", 1<<20)), 1<<10)...)
})

func streaming(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusOK)
}

// onCallHTTP returns a site that answers calls so.
func onCallHTTP(answer func(http.ResponseWriter, *http.Request, message)) func(*site) {
	return func(s *site) {
		s.handle = func(w http.ResponseWriter, r *http.Request, m message) bool {
			if m.Method != "tools/call" {
				return false
			}
			answer(w, r, m)
			return true
		}
	}
}

// site302 returns a site that redirects everything.
func site302(to string) kind {
	return kind{named: []string{"doctor: "}, serve: func(s *site) {
		s.handle = func(w http.ResponseWriter, r *http.Request, _ message) bool {
			w.Header().Set("Location", to)
			w.WriteHeader(http.StatusTemporaryRedirect)
			return true
		}
	}}
}

// siteStatus returns a site that answers with a status alone.
func siteStatus(status int, header, value string) kind {
	return kind{named: []string{"doctor: "}, serve: func(s *site) {
		s.handle = func(w http.ResponseWriter, _ *http.Request, _ message) bool {
			w.Header().Set(header, value)
			w.WriteHeader(status)
			return true
		}
	}}
}
