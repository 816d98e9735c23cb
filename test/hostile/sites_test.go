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

	"github.com/mcp-metarouter/metarouter/test/expect"
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
	expect.OK(t, err)
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
	"HTTP stream that ends at once": {named: []string{"answer: "}, serve: onCallHTTP(func(w http.ResponseWriter, r *http.Request, m message) {
		streaming(w)
		fmt.Fprint(w, "retry: 0\nid: 1\ndata:\n\n")
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
	"HTTP 429 with a Retry-After of years": siteStatus(429, "Retry-After", "99999999999"),
	"HTTP 401 always":                      siteStatus(401, "WWW-Authenticate", `Bearer resource_metadata="http://169.254.169.254/`+strings.Repeat("x", 1000)+`"`),
	"HTTP 202 for requests":                siteStatus(202, "X", "x"),
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
