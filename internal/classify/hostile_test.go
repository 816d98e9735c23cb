package classify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/modelcontextprotocol/go-sdk/mcp.(*streamableServerConn).Read")) // of the tests' own servers
}

// at returns the options of an outside server at the URL.
func at(url string) config.Outside {
	o := options()
	o.Server, o.URL = "", url
	return o
}

// A peer answers as the example server of vLLM semantic router does: HTTP 200 to
// everything, failures as an error in the text, names of categories and nothing
// else, and a confidence that is not among the probabilities.
func peer() http.Handler {
	names := []string{"math", "science", "general"}
	says := func(tool string, arguments map[string]any) any {
		text, _ := arguments["text"].(string)
		switch {
		case tool == "list_categories":
			return map[string]any{"categories": names}
		case tool != "classify_text":
			return map[string]any{"error": "Unknown tool: " + tool}
		case text == "":
			return map[string]any{"error": "No text provided"}
		}
		said := map[string]any{"class": 2, "confidence": 1.0, "model": "openai/gpt-oss-20b", "use_reasoning": true}
		if strings.Contains(text, "equation") {
			said["class"], said["confidence"] = 0, 0.75
		}
		if arguments["with_probabilities"] == true {
			said["probabilities"], said["entropy"] = []float64{0.25, 0.25, 0.5}, 1.5
			if said["class"] == 0 {
				said["probabilities"], said["entropy"] = []float64{0.36, 0.32, 0.32}, 1.58
			}
		}
		return said
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct {
			ID     any
			Method string
			Params struct {
				Name      string
				Arguments map[string]any
			}
		}
		if err := json.NewDecoder(r.Body).Decode(&m); err != nil {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		if r.URL.Path != "/mcp" || m.Method != "tools/call" {
			w.WriteHeader(http.StatusNotFound)
			reply(w, map[string]any{"jsonrpc": "2.0", "id": m.ID, "error": map[string]any{"code": -32601, "message": "Method not found: " + m.Method}})
			return
		}
		text, _ := json.Marshal(says(m.Params.Name, m.Params.Arguments))
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		json.NewEncoder(w).Encode(map[string]any{"jsonrpc": "2.0", "id": m.ID, "result": map[string]any{
			"content": []any{map[string]any{"type": "text", "text": string(text)}}, "isError": false,
		}})
	})
}

func TestPeer(t *testing.T) {
	server := httptest.NewServer(peer())
	defer server.Close()
	o := at(server.URL + "/mcp")
	k := started(t, config.Classification{Outside: &o, Threshold: 0.6, Fallback: "general"}, nil)
	if got := fmt.Sprint(k.Categories(t.Context()).Categories); got != "[math science general]" {
		t.Errorf("categories: %s, %+v", got, k.Health().Outside)
	}
	for text, want := range map[string]string{"solve the equation": "math 0.75", "hello there": "general 1.00"} {
		got := outcome(t, k, text)
		if fmt.Sprintf("%s %.2f", got.Category, got.Confidence) != want || got.Source != sourceOutside || got.Model != "openai/gpt-oss-20b" || !got.UseReasoning {
			t.Errorf("%s: %+v, want %s", text, got, want)
		}
	}
}

// However unsure the server is of a class, no other one is named in its place.
func TestUnsureOutside(t *testing.T) {
	n := newEntry()
	o := options()
	var now atomic.Value // the answer, also to the probes of the classifier's own goroutine
	now.Store(`{"class": 2, "confidence": 0.1}`)
	n.answer = func(string) string { return now.Load().(string) }
	k := started(t, config.Classification{Outside: &o}, n)
	for _, answer := range []string{
		`{"class": 2, "confidence": 0.1}`, `{"class": 2, "confidence": 0}`,
		`{"class": 2, "confidence": 0.2, "probabilities": [0.1, 0.1, 0.8]}`,
		`{"class": 2, "confidence": 0.48, "probabilities": [0.5, 0.02, 0.48]}`,
	} {
		now.Store(answer)
		got := outcome(t, k, "b")
		if got.Class != 2 || got.Source != sourceOutside || got.Confidence != got.Probabilities[2] || got.Confidence < got.Probabilities[0] {
			t.Errorf("%s: %+v", answer, got)
		}
	}
}

// A server that lists ever new categories fills a bounded memory.
func TestListIsBounded(t *testing.T) {
	n := newEntry()
	var lists atomic.Int64
	long := strings.Repeat("word ", 2_000)
	o := options()
	o.CacheCategories = false
	n.next = func() string {
		i := lists.Add(1)
		list := List{Descriptions: map[string]string{}, SystemPrompts: map[string]string{}}
		for j := range 100 {
			name := fmt.Sprintf("c%d", int64(j)+100*i)
			list.Categories = append(list.Categories, name)
			list.Descriptions[name], list.SystemPrompts[name] = long, long
		}
		text, _ := json.Marshal(list)
		return string(text)
	}
	k := started(t, config.Classification{Outside: &o}, n)
	for range 2 * maxCategories / 100 {
		k.Categories(t.Context())
	}
	size := 0
	list := k.Categories(t.Context())
	for _, name := range list.Categories {
		size += len(list.Descriptions[name]) + len(list.SystemPrompts[name])
	}
	if len(list.Categories) > maxCategories || size > maxCategories*(maxDescription+maxPrompt) {
		t.Errorf("%d categories of %d bytes", len(list.Categories), size)
	}
	if len(list.Categories) < 100 {
		t.Errorf("%d categories", len(list.Categories))
	}
}

// Texts that the server can't classify say nothing about other texts.
func TestBadTexts(t *testing.T) {
	n := newEntry()
	n.answer = func(text string) string {
		if strings.Contains(text, "bad") {
			return `{"error": "what is that?"}`
		}
		return `{"class": 1, "confidence": 0.8}`
	}
	o := options()
	k := started(t, config.Classification{Outside: &o}, n)
	for range 10 {
		if got := outcome(t, k, "bad"); got.Source != sourceBuiltin || !got.Degraded {
			t.Errorf("%+v", got)
		}
	}
	if got := outcome(t, k, "good"); got.Source != sourceOutside {
		t.Errorf("%+v, %+v", got, k.Health().Outside)
	}
}

// Why an answer was not believed is in the log, and not once for each of many.
func TestRefusedIsSaid(t *testing.T) {
	n := newEntry()
	n.answer = func(text string) string {
		if strings.Contains(text, "bad") {
			return `{"class": 17, "confidence": 0.8}`
		}
		return `{"class": 1, "confidence": 0.8}`
	}
	o := options()
	core, logs := observer.New(zap.WarnLevel)
	k := New(&config.Classification{Outside: &o, MaxText: 100}, []config.Category{{Name: "tag"}}, n, "", zap.New(core))
	stop := running(t, k)
	for range 100 {
		outcome(t, k, "bad")
	}
	stop()
	said := logs.All()
	if len(said) == 0 || len(said) > 10 {
		t.Fatalf("%d lines", len(said))
	}
	expect.Contains(t, fmt.Sprint(said[0].ContextMap()["error"]), "class 17 of ")
}

// A client that leaves says nothing about the server, either.
func TestClientLeaves(t *testing.T) {
	n := newNeighbour()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if strings.Contains(string(body), "slowly") {
			<-r.Context().Done()
			return
		}
		var m struct{ Params json.RawMessage }
		json.Unmarshal(body, &m)
		reply(w, map[string]any{"result": n.call(m.Params)})
	}))
	defer server.Close()
	o := at(server.URL)
	k := started(t, config.Classification{Outside: &o}, nil)
	outcome(t, k, "b")
	_, err := k.classifyBuiltin(t.Context(), "b")
	expect.OK(t, err)
	for range 5 {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		if got, err := k.Classify(ctx, "slowly"); err != nil || got.Source != sourceBuiltin {
			t.Errorf("%+v, %v", got, err)
		}
		cancel()
	}
	if got := outcome(t, k, "b"); got.Source != sourceOutside {
		t.Errorf("%+v, %+v", got, k.Health().Outside)
	}
}

// If the answers of a server no longer fit its list, it is asked for the list again.
func TestListGrows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newEntry()
		var grown atomic.Bool
		n.next = func() string {
			if grown.Load() {
				return `{"categories": ["d", "c", "b", "a"]}`
			}
			return `{"categories": ["a", "b", "c"]}`
		}
		n.answer = func(text string) string {
			if grown.Load() {
				return `{"class": 3, "confidence": 0.9}`
			}
			return `{"class": 0, "confidence": 0.9}`
		}
		o := options()
		k := started(t, config.Classification{Outside: &o}, n)
		if got := outcome(t, k, "x"); got.Category != "a" || got.Source != sourceOutside {
			t.Fatalf("%+v", got)
		}
		grown.Store(true)
		expect.Equal(t, outcome(t, k, "x").Source, sourceBuiltin)
		time.Sleep(lastProbe)
		if got := outcome(t, k, "x"); got.Category != "a" || got.Class != 0 || got.Source != sourceOutside {
			t.Errorf("%+v", got)
		}
	})
}

// Whatever list counts at the moment, an answer is whole.
func TestListFlaps(t *testing.T) {
	n := newEntry()
	var lists, texts atomic.Int64
	n.next = func() string {
		return []string{`{"categories": ["a", "b", "c"]}`, `{"categories": ["c", "a"]}`, `{"categories": ["d", "c", "b", "a", "e"]}`}[lists.Add(1)%3]
	}
	n.answer = func(string) string { return fmt.Sprintf(`{"class": %d, "confidence": 0.9}`, texts.Add(1)%5) }
	o := options()
	o.CacheCategories = false
	k := started(t, config.Classification{Outside: &o}, n)
	var asking sync.WaitGroup
	for range 8 {
		asking.Go(func() {
			for range 100 {
				k.Categories(t.Context())
				got, err := k.Classify(t.Context(), "x")
				sum := 0.0
				for _, p := range got.Probabilities {
					sum += p
				}
				if err != nil || len(got.Probabilities) != len(got.Categories) || got.Categories[got.Class] != got.Category || math.Abs(sum-1) > 1e-9 {
					t.Errorf("%+v, %v", got, err)
					return
				}
			}
		})
	}
	asking.Wait()
}

// An entry that was started anew may have another list, so no index of it is
// believed before the list was asked for again.
func TestEntryStartsAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &restarting{now: newNeighbour()}
		n.now.list = `{"categories": ["a", "b"]}`
		n.now.answer = func(string) string { return `{"class": 0, "confidence": 0.9}` }
		o := options()
		k := started(t, config.Classification{Outside: &o}, n)
		if got := outcome(t, k, "x"); got.Category != "a" || got.Source != sourceOutside {
			t.Fatalf("%+v", got)
		}
		next := newNeighbour()
		next.list = `{"categories": ["b", "a"]}`
		next.answer = func(string) string { return `{"class": 1, "confidence": 0.9}` }
		n.mu.Lock()
		n.now = next
		n.mu.Unlock()
		mcptest.WaitFor(t, "the server to be used again", func() bool {
			got := outcome(t, k, "x")
			if got.Source == sourceOutside && got.Category != "a" {
				t.Fatalf("%+v", got)
			}
			return got.Source == sourceOutside
		})
	})
}

// restarting has another session after each restart.
type restarting struct {
	mu  sync.Mutex
	now *neighbour
}

func (r *restarting) Session(context.Context, string, session.Client) (session.Session, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return neighbourSession{n: r.now}, nil
}

type neighbourSession struct {
	session.Session
	n *neighbour
}

func (s neighbourSession) Call(_ context.Context, r session.Request) (json.RawMessage, error) {
	return json.Marshal(s.n.call(r.Params))
}

// A router that is configured to ask itself, or one that asks it, does not go round in
// circles.
func TestCircle(t *testing.T) {
	var k atomic.Pointer[Classifier]
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct {
			Params struct {
				Name      string
				Arguments struct{ Text string }
			}
		}
		json.NewDecoder(r.Body).Decode(&m)
		asked.Add(1)
		var said any
		if m.Params.Name == "list_categories" {
			said = k.Load().Categories(r.Context())
		} else {
			said, _ = k.Load().Classify(r.Context(), m.Params.Arguments.Text)
		}
		text, _ := json.Marshal(said)
		reply(w, map[string]any{"result": map[string]any{"content": []any{map[string]any{"type": "text", "text": string(text)}}}})
	}))
	defer server.Close()
	o := at(server.URL)
	o.Timeout, o.MaxRetries = 300*time.Millisecond, 0
	us := New(&config.Classification{Outside: &o, MaxText: 100, Categories: []config.Category{{Name: "a"}, {Name: "b"}}}, nil, nil, "", zap.NewNop())
	k.Store(us)
	defer running(t, us)()
	mcptest.WaitFor(t, "it to be looked at again", func() bool { return asked.Load() >= 4 })
	for range 20 {
		if got := outcome(t, us, "x"); got.Source != sourceBuiltin {
			t.Fatalf("%+v", got)
		}
	}
	if got := asked.Load(); got > 20 {
		t.Errorf("%d requests", got)
	}
}

// Faults of a server at a URL, and the state that follows.
func TestHostileWeb(t *testing.T) {
	n := newNeighbour()
	good := func(w http.ResponseWriter, r *http.Request) []byte {
		var m struct{ Params json.RawMessage }
		json.NewDecoder(r.Body).Decode(&m)
		text, _ := json.Marshal(map[string]any{"result": n.call(m.Params)})
		return text
	}
	for _, tt := range []struct {
		name    string
		handler http.HandlerFunc
		source  string
		says    string // why it is down
		atMost  int64  // requests of one classification
	}{
		{"text/plain", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/plain")
			w.Write(good(w, r))
		}, sourceOutside, "", 100},
		{"no content type", func(w http.ResponseWriter, r *http.Request) {
			w.Header()["Content-Type"] = nil
			w.Write(good(w, r))
		}, sourceOutside, "", 100},
		{"a page", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			io.WriteString(w, "<html>Sign in")
		}, sourceBuiltin, "not JSON-RPC (", 20},
		{"a page that is called JSON", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, "<html>Sign in")
		}, sourceBuiltin, "not JSON-RPC (", 20},
		{"fine", func(w http.ResponseWriter, r *http.Request) { reply(w, map[string]any{"status": "ok"}) }, sourceBuiltin, "not JSON-RPC", 20},
		{"later", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Retry-After", "3600")
			w.WriteHeader(http.StatusTooManyRequests)
		}, sourceBuiltin, "429", 2},
		{"not you", func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusForbidden) }, sourceBuiltin, `"headers"`, 2},
		{"half an answer", func(w http.ResponseWriter, r *http.Request) {
			answer := good(w, r)
			w.Header().Set("Content-Length", fmt.Sprint(len(answer)))
			w.Write(answer[:len(answer)/2])
			panic(http.ErrAbortHandler)
		}, sourceBuiltin, "EOF", 20},
		{"too much", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, `{"result": {"content": [{"type": "text", "text": "`)
			for range 2 * maxAnswer >> 10 {
				io.WriteString(w, strings.Repeat("x", 1<<10))
			}
		}, sourceBuiltin, "longer than", 3},
		{"deep", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, strings.Repeat(`{"result":`, 1<<18))
		}, sourceBuiltin, "not JSON-RPC (", 20},
		{"a stream of it", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, "data: %s\n\n", good(w, r))
		}, sourceBuiltin, "decode event", 20},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var requests atomic.Int64
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				requests.Add(1)
				tt.handler(w, r)
			}))
			t.Cleanup(server.Close)
			o := at(server.URL + "/mcp")
			o.MaxRetries = 3
			k := New(&config.Classification{Outside: &o, MaxText: 8192}, []config.Category{{Name: "tag"}}, nil, "", zap.NewNop())
			t.Cleanup(k.outside.caller.close)
			k.outside.setState(k.outside.probe(t.Context())) // as Run does, which would probe again meanwhile
			k.outside.endOfProbe()
			got := outcome(t, k, "b")
			asked := requests.Load()
			h := k.Health().Outside
			if got.Source != tt.source || h.Source != tt.source || !strings.Contains(h.Error, tt.says) || asked > tt.atMost {
				t.Errorf("%+v, %+v after %d requests", got, h, asked)
			}
			if strings.Contains(h.Error, "\n") {
				t.Errorf("%q is no line", h.Error)
			}
		})
	}
}

// The SDK reads whatever a server sends, unless the transport ends it.
func TestEndlessStream(t *testing.T) {
	var sent atomic.Int64
	n := newNeighbour()
	inner := n.streamable(false)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if !strings.Contains(string(body), `"tools/call"`) || r.Header.Get("Mcp-Session-Id") == "" {
			r.Body = io.NopCloser(strings.NewReader(string(body)))
			inner.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		for r.Context().Err() == nil && sent.Load() < 64*maxAnswer {
			k, err := w.Write([]byte(strings.Repeat("x", 1<<16)))
			if sent.Add(int64(k)); err != nil {
				return
			}
		}
	}))
	defer server.Close()
	w, _ := newHTTPCaller(server.URL, nil)
	defer w.close()
	if _, err := w.call(t.Context(), "classify_text", map[string]string{"text": "x"}); err == nil {
		t.Error("no error")
	}
	if got := sent.Load(); got > 8*maxAnswer {
		t.Errorf("%d MiB were read", got>>20)
	}
}

// An error of the protocol is about the text, not the session.
func TestStreamableRefuses(t *testing.T) {
	mcpServer := mcp.NewServer(&mcp.Implementation{Name: "n", Version: "1"}, nil)
	var sessions atomic.Int64
	mcpServer.AddTool(&mcp.Tool{Name: "classify_text", InputSchema: json.RawMessage(`{"type":"object"}`)}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return nil, errors.New("what is that?")
	})
	inner := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return mcpServer }, nil)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Mcp-Session-Id") == "" && strings.Contains(r.Header.Get("Accept"), "text/event-stream") {
			sessions.Add(1)
		}
		inner.ServeHTTP(w, r)
	}))
	defer server.Close()
	w, _ := newHTTPCaller(server.URL, nil)
	defer w.close()
	for range 3 {
		_, err := w.call(t.Context(), "no_such_tool", struct{}{})
		if _, refused := errors.AsType[*answerError](err); !refused {
			t.Errorf("%v", err)
		}
	}
	if got := sessions.Load(); got > 2 { // server/discover, initialize
		t.Errorf("%d sessions were opened", got)
	}
}

// Neither /health nor the log has the secrets of the URL.
func TestAddressIsNoSecret(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	o := at(strings.Replace(server.URL, "http://", "http://user:pass-word@", 1) + "/mcp?key=k-e-y")
	o.MaxRetries = 0
	core, logs := observer.New(zap.DebugLevel)
	k := New(&config.Classification{Outside: &o, MaxText: 100}, []config.Category{{Name: "tag"}}, nil, "", zap.New(core))
	stop := running(t, k)
	outcome(t, k, "b")
	stop()
	h := k.Health().Outside
	if h.State != "down" || logs.Len() == 0 {
		t.Errorf("%+v", h)
	}
	text := fmt.Sprint(*h, logs.All()[0].ContextMap())
	for _, secret := range []string{"user", "pass-word", "k-e-y"} {
		if strings.Contains(text, secret) {
			t.Errorf("%q is in %s", secret, text)
		}
	}
	expect.Contains(t, h.Address, "/mcp")
}

// Who asks after the end leaves nothing open.
func TestClosedWeb(t *testing.T) {
	server := httptest.NewServer(newNeighbour().streamable(false))
	defer server.Close()
	w, _ := newHTTPCaller(server.URL, nil)
	w.close()
	if _, err := w.call(t.Context(), "list_categories", struct{}{}); err == nil {
		t.Error("no error")
	}
	if w.session.Load() != nil {
		t.Error("a session is open")
	}
}

// The first text does not wait for the training. The end of the router does not, either; a text
// that still comes gets its answer.
func TestTrainedAhead(t *testing.T) {
	ended, end := context.WithCancel(t.Context())
	end()
	k := New(&config.Classification{Categories: []config.Category{{Name: "a"}, {Name: "b"}}, MaxText: 100}, nil, nil, "", zap.NewNop())
	expect.OK(t, k.Run(ended, false))
	if _, err := k.classifyBuiltin(ended, "a"); !errors.Is(err, context.Canceled) {
		t.Errorf("it was trained after the end, with the error %v", err)
	}
	expect.OK(t, k.Run(t.Context(), false))
	_, err := k.classifyBuiltin(ended, "a")
	expect.OK(t, err, "Run has not trained it")
}

// If the client leaves, its text does not wait until another call has trained the built-in classifier.
func TestTrainingWaits(t *testing.T) {
	k := New(&config.Classification{Categories: []config.Category{{Name: "a"}, {Name: "b"}}, MaxText: 100}, nil, nil, "", zap.NewNop())
	set := k.set.Load()
	set.training <- struct{}{} // another call trains
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := k.classifyBuiltin(ctx, "a"); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	<-set.training
	_, err := k.classifyBuiltin(t.Context(), "a")
	expect.OK(t, err)
}

// Clients that may know the same tags share a classifier, which is trained once; their number is bounded.
func TestWithinTrainsOnce(t *testing.T) {
	var tags []config.Category
	for i := range 2 * maxWithin {
		tags = append(tags, config.Category{Name: fmt.Sprint(i)})
	}
	o := options()
	k := New(&config.Classification{Outside: &o, MaxText: 100}, tags, newEntry(), "", zap.NewNop())
	some := k.Within(map[string]int{"1": 1, "2": 3})
	_, err := some.Classify(t.Context(), "one")
	expect.OK(t, err)
	again := k.Within(map[string]int{"2": 1, "1": 1, "0": 0, "none": 1})
	if again != some || again.set.Load().trained.Load() == nil {
		t.Error("the same tags have another classifier")
	}
	if other := k.Within(map[string]int{"1": 1}); other == some {
		t.Error("other tags have the same classifier")
	}
	for i := range 2 * maxWithin {
		k.Within(map[string]int{fmt.Sprint(i): 1})
	}
	if n := len(k.set.Load().within); n > maxWithin {
		t.Errorf("%d classifiers are kept", n)
	}
}

// distribution never makes another class the largest.
func FuzzDistribution(f *testing.F) {
	f.Add(0.1, 0.3, 0.3, 0.4, uint8(2))
	f.Fuzz(func(t *testing.T, confidence, a, b, c float64, class uint8) {
		said := []float64{a, b, c}
		if !(confidence >= 0 && confidence <= 1) {
			return
		}
		k := int(class) % 3
		for _, said := range [][]float64{nil, said} {
			p, err := distribution(k, confidence, said, 3)
			if err != nil {
				continue
			}
			sum := 0.0
			for i, x := range p {
				if sum += x; !(x >= 0) || i != k && x >= p[k] {
					t.Errorf("class %d, %v, %v: %v", k, confidence, said, p)
				}
			}
			if math.Abs(sum-1) > 1e-9 {
				t.Errorf("class %d, %v, %v: %v", k, confidence, said, p)
			}
		}
	})
}
