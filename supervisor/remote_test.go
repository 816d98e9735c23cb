//go:build unix

package supervisor

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/supervisor/internal/peer"
	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

// A visit is a request that a far server has seen.
type visit struct {
	*http.Request
	m wire.Message
}

// A far is a remote server. It knows the handshake of its era and lists one tool;
// all else is up to answer.
type far struct {
	*httptest.Server
	modern bool
	id     string // of its sessions; "" has none
	tools  string
	says   func(v visit) string // see newFarSSE

	// early is asked before all else, answer where nothing else is known. They
	// report whether they have answered.
	early, answer func(w http.ResponseWriter, v visit) bool

	mu     sync.Mutex
	visits []visit
}

func newFar(t *testing.T, set func(*far)) *far {
	f := &far{tools: `[{"name":"echo","inputSchema":{"type":"object"}}]`}
	set(f)
	f.Server = httptest.NewServer(f)
	t.Cleanup(f.Close)
	return f
}

func (f *far) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	m, _ := wire.Parse(body)
	v := visit{r, m}
	f.mu.Lock()
	f.visits = append(f.visits, v)
	f.mu.Unlock()
	if f.early != nil && f.early(w, v) || f.answer != nil && m.Method != peer.Initialize && m.Method != peer.Discover && f.answer(w, v) {
		return
	}
	switch {
	case r.Method == http.MethodGet:
		http.Error(w, "no stream here", http.StatusMethodNotAllowed)
	case m.ID == nil:
		w.WriteHeader(http.StatusAccepted)
	case m.Method == peer.Discover && f.modern:
		result(w, m, `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"far","version":"1"}}}`)
	case m.Method == peer.Discover && f.id != "":
		http.Error(w, `{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: no session"},"id":null}`, http.StatusBadRequest)
	case m.Method == peer.Initialize && !f.modern:
		if f.id != "" {
			w.Header().Set("Mcp-Session-Id", f.id)
		}
		result(w, m, `{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"far","version":"1"}}`)
	case m.Method == "tools/list":
		result(w, m, `{"tools":`+f.tools+`}`)
	case m.Method == "tools/call":
		result(w, m, `{"content":[{"type":"text","text":"called"}]}`)
	default:
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"unknown"}}`, m.ID)
	}
}

func result(w http.ResponseWriter, m wire.Message, what string) {
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, "{\"jsonrpc\":\"2.0\",\n\"id\":%s,\n\"result\":%s}", m.ID, what)
}

// say sends an event.
func say(w http.ResponseWriter, format string, args ...any) {
	if w.Header().Get("Content-Type") == "" {
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	}
	fmt.Fprintf(w, format+"\n\n", args...)
	w.(http.Flusher).Flush()
}

func (f *far) seen(which func(visit) bool) (found []visit) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, v := range f.visits {
		if which(v) {
			found = append(found, v)
		}
	}
	return found
}

func methods(visits []visit) (all []string) {
	for _, v := range visits {
		all = append(all, v.Request.Method+" "+v.m.Method)
	}
	return slices.Compact(all)
}

func by(httpMethod, method string) func(visit) bool {
	return func(v visit) bool { return v.Request.Method == httpMethod && v.m.Method == method }
}

// at returns an entry for a remote server.
func at(url string, t config.Transport) config.Server {
	return config.Server{Name: "r", Transport: t, URL: url, StartTimeout: 30 * time.Second, Headers: map[string]string{"Authorization": "Bearer x"}}
}

// remote runs a supervisor of a far server that is ready.
func remote(t *testing.T, set func(*far)) (*far, *fixture) {
	t.Helper()
	srv := newFar(t, set)
	f := supervise(t, at(srv.URL, config.StreamableHTTP))
	f.await("r", status.Ready)
	return srv, f
}

// only answers requests of one method.
func only(method string, answer func(http.ResponseWriter, visit)) func(http.ResponseWriter, visit) bool {
	return func(w http.ResponseWriter, v visit) bool {
		if v.m.Method == method {
			answer(w, v)
		}
		return v.m.Method == method
	}
}

func TestRemoteEras(t *testing.T) {
	t.Parallel()
	refusal := func(supported string) func(http.ResponseWriter, visit) bool {
		refused := false
		return func(w http.ResponseWriter, v visit) bool {
			if refused || v.m.Method != peer.Discover {
				return false
			}
			refused = true
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32022,"message":"unsupported","data":{"supported":%s}}}`, v.m.ID, supported)
			return true
		}
	}
	for name, test := range map[string]struct {
		set      func(*far)
		revision string
		probes   int
		asked    string // the revision that initialize asks for, "" if it is not sent
	}{
		"legacy with a session":    {func(f *far) { f.id = "s1" }, "2025-06-18", 1, "2025-11-25"},
		"legacy without a session": {func(f *far) {}, "2025-06-18", 1, "2025-11-25"},
		"modern":                   {func(f *far) { f.modern = true }, "2026-07-28", 1, ""},
		"modern at the second try": {func(f *far) { f.modern, f.early = true, refusal(`["2026-07-28"]`) }, "2026-07-28", 2, ""},
		"legacy, as it says":       {func(f *far) { f.early = refusal(`["2025-03-26","2025-06-18"]`) }, "2025-06-18", 1, "2025-06-18"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := newFar(t, test.set)
			f := supervise(t, at(srv.URL, config.StreamableHTTP))
			st := f.await("r", status.Ready)
			if got := f.mustCall("r", "echo", `{}`); !strings.Contains(got, "called") || strings.Contains(got, "\n") {
				t.Errorf("the call's result is %q", got)
			}
			f.stop()
			if st.ProtocolVersion != test.revision || st.Transport != "http" {
				t.Errorf("status = %+v, want revision %s over http", st, test.revision)
			}
			expect.Equal(t, len(srv.seen(by("POST", peer.Discover))), test.probes, "probes")
			asked := ""
			for _, v := range srv.seen(by("POST", peer.Initialize)) {
				asked, _ = wire.String(wire.Member(v.m.Params, "protocolVersion"))
			}
			expect.Equal(t, asked, test.asked, "initialize asked for")
			checkHeaders(t, srv, test.revision)
		})
	}
}

// checkHeaders checks the headers of all that a far server was asked.
func checkHeaders(t *testing.T, srv *far, revision string) {
	t.Helper()
	for _, v := range srv.seen(func(visit) bool { return true }) {
		h := v.Header
		shaking := v.m.Method == peer.Discover || v.m.Method == peer.Initialize
		want := map[string]string{"Authorization": "Bearer x", "Mcp-Session-Id": srv.id, "Mcp-Protocol-Version": revision}
		if shaking {
			delete(want, "Mcp-Session-Id")
			want["Mcp-Protocol-Version"] = map[string]string{peer.Discover: session.Modern}[v.m.Method]
		}
		if v.Request.Method == "POST" {
			want["Accept"], want["Content-Type"] = "application/json, text/event-stream", "application/json"
		}
		if v.m.Method == peer.Discover || revision == session.Modern {
			want["Mcp-Method"] = v.m.Method
		}
		if v.m.Method == "tools/call" && revision == session.Modern {
			want["Mcp-Name"] = "echo"
		}
		for _, name := range []string{"Authorization", "Mcp-Session-Id", "Mcp-Protocol-Version", "Accept", "Content-Type", "Mcp-Method", "Mcp-Name"} {
			if v.Request.Method != "POST" && (name == "Accept" || name == "Content-Type") {
				continue
			}
			expect.Equal(t, h.Get(name), want[name], "%s %s has %s", v.Request.Method, v.m.Method, name)
		}
	}
	expect.Equal(t, len(srv.seen(by("DELETE", ""))), len(srv.id)/2, "… sessions of id %q were ended", srv.id)
}

// What a server says and asks because of a request comes to the client whose
// request it is, in order and before the result.
func TestRemoteStreamOfARequest(t *testing.T) {
	t.Parallel()
	answered := make(chan string, 1)
	_, f := remote(t, func(f *far) {
		f.id = "s1"
		f.answer = func(w http.ResponseWriter, v visit) bool {
			switch {
			case v.m.IsResponse():
				w.WriteHeader(http.StatusAccepted)
				answered <- string(v.m.Result)
				return true
			case v.m.Method != "tools/call":
				return false
			}
			for i := range 100 {
				say(w, "event: message\r\ndata: {\"method\":\"notifications/message\",\r\ndata: \"params\":{\"n\":%d}}\r", i)
			}
			say(w, `data: {"method":"notifications/progress","params":{"progressToken":%s,"progress":1}}`, wire.Member(wire.Member(v.m.Params, "_meta"), "progressToken"))
			say(w, `data: {"id":"q","method":"elicitation/create","params":{"n":1}}`)
			say(w, `data: {"id":%s,"result":{"got":%s}}`, v.m.ID, <-answered)
			return true
		}
	})
	c, stranger := clientOf("c"), clientOf("stranger")
	s, err := f.Session(t.Context(), "r", c)
	expect.OK(t, err)
	raw, err := s.Call(t.Context(), session.Request{Method: "tools/call", Params: []byte(`{"name":"x"}`), Meta: []byte(`{"progressToken":"mine"}`), From: c})
	if want := `{"got":{"by":"c","to":"elicitation/create","params":{"n":1}}}`; err != nil || string(raw) != want {
		t.Errorf("Call = %s, %v, want %s", raw, err, want)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.heard) != 101 || c.heard[0] != `message{"n":0}` || c.heard[99] != `message{"n":99}` || !strings.Contains(c.heard[100], `"progressToken":"mine"`) {
		t.Errorf("heard %d: %.300q", len(c.heard), c.heard)
	}
	expect.List(t, stranger.heard, nil, "a stranger heard")
}

// A stream that breaks is resumed behind the last event.
func TestRemoteResumes(t *testing.T) {
	t.Parallel()
	var id string
	_, f := remote(t, func(f *far) {
		f.id = "s1"
		f.answer = func(w http.ResponseWriter, v visit) bool {
			switch last := v.Header.Get("Last-Event-ID"); {
			case v.m.Method == "tools/call" && strings.Contains(string(v.m.Params), `"lost"`):
				say(w, ": nothing that could be resumed")
			case v.m.Method == "tools/call":
				id = string(v.m.ID)
				say(w, "id: e1\nretry: 1\ndata:")
			case v.Request.Method == "GET" && last == "e1":
				say(w, "id: e2\ndata: {\"method\":\"notifications/message\",\"params\":1}")
			case v.Request.Method == "GET" && last == "e2":
				say(w, `data: {"id":%s,"result":{"ok":1}}`, id)
			default:
				return false
			}
			return true
		}
	})
	expect.Equal(t, f.mustCall("r", "echo", "{}"), `{"ok":1}`, "the resumed call answered")
	if _, err := f.call("r", "lost", "{}"); !errors.Is(err, session.ErrClosed) {
		t.Errorf("the broken call: %v", err)
	}
	if st := f.state("r"); st.State != status.Ready {
		t.Errorf("the server is %s after a broken stream", st.State)
	}
}

// The server's own stream is opened again when it ends.
func TestRemoteListens(t *testing.T) {
	t.Parallel()
	srv, f := remote(t, func(f *far) {
		f.id = "s1"
		f.answer = func(w http.ResponseWriter, v visit) bool {
			if v.Request.Method != "GET" {
				return false
			}
			switch v.Header.Get("Last-Event-ID") {
			case "":
				say(w, "id: 1\nretry: 1\ndata: {\"method\":\"notifications/tools/list_changed\"}")
			case "1":
				say(w, "id: 2\ndata: {\"id\":7,\"method\":\"ping\"}")
				<-v.Context().Done()
			}
			return true
		}
	})
	mcptest.WaitFor(t, "the tools to be listed again, and the ping to be answered", func() bool {
		n, _ := f.listings("r")
		return n >= 2 && len(srv.seen(func(v visit) bool { return v.m.IsResponse() && string(v.m.ID) == "7" })) == 1
	})
}

// A server that has forgotten the session gets a new one, and the call that found
// it out is known not to have been looked at.
func TestRemoteForgets(t *testing.T) {
	t.Parallel()
	for name, refuse := range map[string]func(http.ResponseWriter){
		"404": func(w http.ResponseWriter) { http.Error(w, "session not found", http.StatusNotFound) },
		"400": func(w http.ResponseWriter) {
			http.Error(w, `{"jsonrpc":"2.0","error":{"code":-32000,"message":"No valid session ID"},"id":null}`, http.StatusBadRequest)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			forget := make(chan struct{}, 1)
			srv, f := remote(t, func(f *far) {
				f.id = "s1"
				f.answer = func(w http.ResponseWriter, v visit) bool {
					if v.m.Method != "tools/call" {
						return false
					}
					select {
					case <-forget:
						refuse(w)
						return true
					default:
						return false
					}
				}
			})
			forget <- struct{}{}
			if _, err := f.call("r", "echo", "{}"); !errors.Is(err, session.ErrNotSent) {
				t.Errorf("the call: %v, want one that was not sent", err)
			}
			f.mustCall("r", "echo", "{}")
			expect.Equal(t, len(srv.seen(by("POST", peer.Initialize))), 2, "sessions were opened")
		})
	}
}

// Arguments are repeated in headers as the tools' schemas ask, tools that ask it
// in a wrong way are left out, and a refusal of the headers has them looked up.
func TestRemoteMirrors(t *testing.T) {
	t.Parallel()
	const valid = `{"name":"ok","inputSchema":{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}}}}`
	srv, f := remote(t, func(f *far) {
		f.modern = true
		f.tools = `[` + valid + `,{"name":"bad","inputSchema":{"type":"object","properties":{"o":{"type":"object","x-mcp-header":"O"}}}}]`
		f.answer = func(w http.ResponseWriter, v visit) bool {
			f.mu.Lock()
			defer f.mu.Unlock()
			if v.m.Method != "tools/call" || v.Header.Get("Mcp-Param-Zone") != "" {
				return false
			}
			f.tools = `[` + strings.ReplaceAll(valid, "Region", "Zone") + `]`
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32020,"message":"mismatch"}}`, v.m.ID)
			return true
		}
	})
	if _, tools := f.listings("r"); tools != `{"tools":[`+valid+`]}` {
		t.Errorf("the tools are %s", tools)
	}
	f.mustCall("r", "ok", `{"region":"Malmö"}`)
	calls := srv.seen(by("POST", "tools/call"))
	if len(calls) != 2 || calls[0].Header.Get("Mcp-Param-Region") != "=?base64?TWFsbcO2?=" || calls[1].Header.Get("Mcp-Param-Zone") != "=?base64?TWFsbcO2?=" {
		t.Errorf("%d calls, the headers of the first: %v", len(calls), calls[0].Header)
	}
}
