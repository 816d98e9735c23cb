package classify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
	"go.uber.org/zap/zaptest"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

// A neighbour is an outside classification server. It says "b" of whatever has a b.
type neighbour struct {
	list   string                   // the answer of list_categories
	next   func() string            // likewise, if it is not nil
	answer func(text string) string // the answer of classify_text
	calls  atomic.Int64
}

func newNeighbour() *neighbour {
	return &neighbour{
		list: `{"categories": ["a", "b", "c"], "category_descriptions": {"b": "all about b"}, "category_system_prompts": {"c": "You see."}}`,
		answer: func(text string) string {
			if strings.Contains(text, "b") {
				return `{"class": 1, "confidence": 0.8, "model": "theirs", "use_reasoning": true, "probabilities": [0.1, 0.8, 0.1], "entropy": 0.9}`
			}
			return `{"class": 0, "confidence": 0.75}`
		},
	}
}

// call answers a tools/call as a result.
func (n *neighbour) call(params []byte) map[string]any {
	var p struct {
		Name      string
		Arguments struct{ Text string }
	}
	json.Unmarshal(params, &p)
	text := ""
	switch p.Name {
	case "list_categories":
		if text = n.list; n.next != nil {
			text = n.next()
		}
	case "classify_text":
		n.calls.Add(1)
		text = n.answer(p.Arguments.Text)
	default:
		return map[string]any{"isError": true, "content": []any{map[string]any{"type": "text", "text": "unknown tool"}}}
	}
	return map[string]any{"content": []any{map[string]any{"type": "text", "text": text}}}
}

// An entryServer is a neighbour that is an entry of the configuration.
type entryServer struct {
	*neighbour
	mu  sync.Mutex
	err error // why there is no session
}

func newEntry() *entryServer { return &entryServer{neighbour: newNeighbour()} }

func (e *entryServer) fail(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.err = err
}

func (e *entryServer) Session(context.Context, string, session.Client) (session.Session, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return entrySession{entryServer: e}, e.err
}

type entrySession struct {
	session.Session
	*entryServer
}

func (e entrySession) Call(_ context.Context, r session.Request) (json.RawMessage, error) {
	e.mu.Lock()
	err := e.err
	e.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return json.Marshal(e.neighbour.call(r.Params))
}

func options() config.Outside {
	return config.Outside{
		Server: "n", ClassifyTool: "classify_text", ListTool: "list_categories",
		Timeout: time.Minute, MaxRetries: 1, CacheCategories: true, RefreshInterval: time.Minute,
	}
}

// started returns a classifier that runs until the test ends.
func started(t *testing.T, c config.Classification, servers Sessions) *Classifier {
	t.Helper()
	c.MaxText = 8192
	k := New(&c, []config.Category{{Name: "tag"}}, servers, "", zaptest.NewLogger(t))
	t.Cleanup(running(t, k))
	return k
}

// running runs a classifier until stop.
func running(t *testing.T, k *Classifier) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- k.Run(ctx, false) }()
	return func() {
		cancel()
		expect.OK(t, <-done, "Run")
	}
}

func outcome(t *testing.T, k *Classifier, text string) Outcome {
	t.Helper()
	o, err := k.Classify(t.Context(), text)
	expect.OK(t, err, "Classify(%q)", text)
	return o
}

func TestOutside(t *testing.T) {
	n := newEntry()
	o := options()
	k := started(t, config.Classification{Outside: &o, Model: "ours", Threshold: 0.6}, n)
	list := k.Categories(t.Context())
	expect.Equal(t, fmt.Sprint(list.Categories, list.Descriptions, list.SystemPrompts), "[a b c] map[b:all about b] map[c:You see.]", "categories")
	b := outcome(t, k, "a bee")
	if b.Class != 1 || b.Category != "b" || math.Abs(b.Confidence-0.8) > 1e-9 || b.Model != "theirs" || !b.UseReasoning || b.Source != sourceOutside || b.Degraded {
		t.Errorf("%+v", b)
	}
	expect.Equal(t, fmt.Sprint(b.Categories), "[a b c]")
	a := outcome(t, k, "air")
	if a.Class != 0 || math.Abs(a.Confidence-0.75) > 1e-9 || math.Abs(a.Probabilities[1]-0.125) > 1e-9 {
		t.Errorf("%+v", a)
	}
	if h := k.Health(); h.Outside.State != "up" || h.Outside.Source != sourceOutside || h.Outside.Address != "n" {
		t.Errorf("%+v", h.Outside)
	}
}

// Categories of the configuration keep their indices, and other categories of the
// outside server come after them.
func TestOutsideKeepsIndices(t *testing.T) {
	n := newEntry()
	o := options()
	k := started(t, config.Classification{Outside: &o, Categories: []config.Category{{Name: "z"}, {Name: "b", Description: "mine"}}}, n)
	list := k.Categories(t.Context())
	expect.Equal(t, fmt.Sprint(list.Categories, list.Descriptions), "[z b a c] map[b:mine]", "categories")
	if b := outcome(t, k, "b"); b.Class != 1 || math.Abs(b.Confidence-0.8) > 1e-9 || b.Probabilities[0] != 0 || len(b.Probabilities) != 4 {
		t.Errorf("%+v", b)
	}
}

// Unsound answers are not used, and a server that gives no others soon counts as down.
func TestOutsideIsChecked(t *testing.T) {
	for _, answer := range []string{
		`{"class": 3, "confidence": 0.8}`, `{"class": -1, "confidence": 0.8}`, `{"class": 1.5, "confidence": 0.8}`,
		`{"class": 1}`, `{"confidence": 0.8}`, `{"class": 1, "confidence": 1.2}`, `{"class": 1, "confidence": -0.1}`,
		`{"class": 1, "confidence": 0.8, "probabilities": [0.5, 0.5]}`,
		`{"class": 1, "confidence": 0.8, "probabilities": [0.5, 0.8, 0.1]}`,
		`{"class": 1, "confidence": 0.8, "probabilities": [0.2, 0.4, 0.1]}`,
		`{"class": 1, "confidence": 0.8, "probabilities": [-0.1, 1, 0.1]}`,
		`{"class": 1, "confidence": 0.8, "probabilities": [0.9, 0.1, 0]}`,
		`{"class": 1, "confidence": 0.8, "probabilities": []}`,
		`{"class": 1, "confidence": NaN}`, `{"class": 1, "confidence": 0.8, "probabilities": [0, Infinity, 0]}`, `{"class": 1, "confidence": 1e999}`,
		`{"class": 99999999999999999999, "confidence": 0.8}`, `{"class": 1, "confidence": "0.8"}`, `{"class": 1, "confidence": 0.8, "degraded": true}`,
		`{"class": 1, "confidence": 0.8, "x": ` + strings.Repeat("[", 1<<16), strings.Repeat("x", 4<<20),
		`{"error": "no model"}`, `nonsense`, ``, `[]`, `{"class": 1, "confidence": 0.8, "model": "` + strings.Repeat("m", 300) + `"}`,
	} {
		synctest.Test(t, func(t *testing.T) {
			n := newEntry()
			var unsound atomic.Bool
			n.answer = func(text string) string {
				if unsound.Load() {
					return answer
				}
				return `{"class": 0, "confidence": 0.75}`
			}
			o := options()
			k := started(t, config.Classification{Outside: &o, Threshold: 0.6}, n)
			if got := outcome(t, k, "b"); got.Source != sourceOutside {
				t.Fatalf("%.60s: %+v", answer, got)
			}
			unsound.Store(true)
			if got := outcome(t, k, "b"); got.Source != sourceBuiltin || !got.Degraded || len(got.Probabilities) != 3 {
				t.Fatalf("%.60s: %+v", answer, got)
			}
			time.Sleep(lastProbe)
			if h := k.Health().Outside; h.State != "down" || h.Source != sourceBuiltin || h.Error == "" {
				t.Errorf("%.60s: %+v", answer, h)
			}
		})
	}
}

func TestListIsChecked(t *testing.T) {
	for _, list := range []string{`{"categories": []}`, `{}`, `{"categories": ["a", "a", "b"]}`, `{"categories": ["a", "", "b"]}`, `{"categories": ["a", "b"]}`, `x`} {
		n := newEntry()
		n.list = list
		o := options()
		o.NumCategories = 3
		k := started(t, config.Classification{Outside: &o}, n)
		if got := outcome(t, k, "b"); got.Category != "tag" || !got.Degraded {
			t.Errorf("%s: %+v", list, got)
		}
		if n.calls.Load() != 0 {
			t.Errorf("%s: it was asked to classify", list)
		}
	}
}

// While the server is away nothing is lost, and it is used again once it is back.
func TestOutsideComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newEntry()
		o := options()
		k := started(t, config.Classification{Outside: &o, Threshold: 0.6}, n)
		if got := outcome(t, k, "b"); got.Source != sourceOutside {
			t.Fatalf("%+v", got)
		}
		n.fail(errors.New("gone"))
		if got := outcome(t, k, "b"); got.Source != sourceBuiltin || !got.Degraded || len(got.Probabilities) != 3 {
			t.Fatalf("%+v", got)
		}
		if h := k.Health().Outside; h.State != "down" || !strings.HasSuffix(h.Error, ": gone") { // of a call, or of a probe since then
			t.Errorf("%+v", h)
		}
		n.fail(nil)
		time.Sleep(lastProbe)
		expect.Equal(t, outcome(t, k, "b").Source, sourceOutside)
	})
}

func only(path string, f http.HandlerFunc) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc(http.MethodPost+" "+path, f)
	return mux
}

func reply(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(v)
}

// streamable is the neighbour as the SDK serves it.
func (n *neighbour) streamable(stateless bool) http.Handler {
	server := mcp.NewServer(&mcp.Implementation{Name: "n", Version: "1"}, nil)
	for _, tool := range []string{"list_categories", "classify_text"} {
		server.AddTool(&mcp.Tool{Name: tool, InputSchema: json.RawMessage(`{"type":"object"}`)}, func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			params, _ := json.Marshal(map[string]any{"name": tool, "arguments": r.Params.Arguments})
			text := n.call(params)["content"].([]any)[0].(map[string]any)["text"].(string)
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil
		})
	}
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{Stateless: stateless})
}

// The headers go to no other origin, and certificates are checked.
func TestWebIsCareful(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("%s was asked, with %q", r.URL, r.Header.Get("X-Key"))
	}))
	defer other.Close()
	redirects := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	defer redirects.Close()
	secret := httptest.NewTLSServer(only("/", func(http.ResponseWriter, *http.Request) { t.Error("a certificate of nobody's was believed") }))
	defer secret.Close()
	for url, want := range map[string]string{redirects.URL: "another origin", secret.URL: "certificate"} {
		w, _ := newHTTPCaller(url, map[string]string{"X-Key": "secret"})
		defer w.close()
		if _, err := w.call(t.Context(), "list_categories", struct{}{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", url, err, want)
		}
	}
}

// A slow server is given its time, and stood in for after it.
func TestSlowOutside(t *testing.T) {
	release := make(chan struct{})
	n := newNeighbour()
	server := httptest.NewServer(only("/{$}", func(w http.ResponseWriter, r *http.Request) {
		var m struct{ Params json.RawMessage }
		json.NewDecoder(r.Body).Decode(&m)
		if strings.Contains(string(m.Params), "slowly") {
			select {
			case <-release:
			case <-r.Context().Done():
			}
		}
		reply(w, map[string]any{"result": n.call(m.Params)})
	}))
	defer server.Close()
	defer close(release)
	o := options()
	o.Server, o.URL = "", server.URL
	k := started(t, config.Classification{Outside: &o}, nil)
	if got := outcome(t, k, "b"); got.Source != sourceOutside {
		t.Fatalf("%+v, %+v", got, k.Health().Outside)
	}
	short := o
	short.Timeout = 200 * time.Millisecond
	k = started(t, config.Classification{Outside: &short}, nil)
	mcptest.WaitFor(t, "the server to be down", func() bool { // the first time, unless the machine stalls
		expect.Equal(t, outcome(t, k, "slowly").Source, sourceBuiltin)
		h := k.Health().Outside
		return h.State == "down" && strings.Contains(h.Error, "no answer within 200ms")
	})
}

func TestSpread(t *testing.T) {
	for _, c := range []struct {
		class      int
		confidence float64
		said, want []float64
	}{
		{0, 0.7, nil, []float64{0.7, 0.1, 0.1, 0.1}},
		{1, 0.5, []float64{0.2, 0.6, 0.1, 0.1}, []float64{0.25, 0.5, 0.125, 0.125}},
		{3, 0.9, []float64{0, 0, 0, 1}, []float64{0, 0, 0, 1}},
		{0, 1, []float64{1.00000012, 0, 0, 0}, []float64{1, 0, 0, 0}}, // a float32 that is 1 but for its last bit
	} {
		got, err := distribution(c.class, c.confidence, c.said, 4)
		expect.OK(t, err)
		for i := range got {
			if math.Abs(got[i]-c.want[i]) > 1e-9 || got[i] > 1 {
				t.Errorf("%+v: %v", c, got)
				break
			}
		}
	}
}
