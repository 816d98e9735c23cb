package adapter

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/selector"
	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
	"github.com/mcp-metarouter/metarouter/test/play"
)

// An oracle is an outside classification server of plain JSON-RPC with answers that change.
type oracle struct {
	url  string
	mu   sync.Mutex
	list string
	say  func(ctx context.Context, text string) string
	down atomic.Bool // it can't be reached
}

func newOracle(t *testing.T, list string, say func(ctx context.Context, text string) string) *oracle {
	o := &oracle{list: list, say: say}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct {
			Params struct {
				Name      string
				Arguments struct{ Text string }
			}
		}
		if o.down.Load() || json.NewDecoder(r.Body).Decode(&m) != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		o.mu.Lock()
		text, say := o.list, o.say
		o.mu.Unlock()
		if m.Params.Name == "classify_text" {
			text = say(r.Context(), m.Params.Arguments.Text)
		}
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(map[string]any{"result": map[string]any{"content": []any{map[string]any{"type": "text", "text": text}}}})
	}))
	t.Cleanup(server.Close)
	o.url = server.URL
	return o
}

func (o *oracle) change(list string, say func(ctx context.Context, text string) string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.list, o.say = list, say
}

func (o *oracle) classification() *config.Classification {
	c := config.DefaultClassification()
	c.Fallback = "other"
	c.Outside = &config.Outside{
		URL: o.url, ClassifyTool: "classify_text", ListTool: "list_categories",
		Timeout: 20 * time.Second, CacheCategories: true, RefreshInterval: 200 * time.Millisecond,
	}
	return c
}

// sorted runs a router with a server of the tools, separated by commas, which are sorted so.
func sorted(t *testing.T, c *config.Classification, tools string) *Router {
	t.Helper()
	return routerOf(t, config.Config{Servers: []config.Server{fake("s", "-tools", tools)}, Router: config.Router{Classification: c}})
}

// music waits until so many tools have the tag music.
func (r *Router) music(t *testing.T, n int) {
	t.Helper()
	mcptest.WaitFor(t, "the tags", func() bool { return len(r.FindByCapability("music")) == n })
}

// songs takes for music whatever sings.
func songs(_ context.Context, text string) string {
	if strings.Contains(text, "sing") {
		return class(0)
	}
	return class(1)
}

func class(n int) string { return fmt.Sprintf(`{"class": %d, "confidence": 0.9}`, n) }

// When the outside server has another list, it is asked about the tools again, and
// tags that it no longer gives are gone.
func TestTagsChange(t *testing.T) {
	o := newOracle(t, `{"categories": ["music", "other"]}`, songs)
	r := sorted(t, o.classification(), "singing_bird,stone")
	r.music(t, 1)
	o.change(`{"categories": ["other", "music", "rock"]}`, func(_ context.Context, text string) string {
		if strings.Contains(text, "stone") {
			return class(2)
		}
		return class(0)
	})
	mcptest.WaitFor(t, "the other tag", func() bool {
		return len(r.FindByCapability("music")) == 0 && len(r.FindByCapability("rock")) == 1
	})
}

// A tool that the outside server can't classify doesn't keep the others from it.
func TestTagsOfTheOthers(t *testing.T) {
	o := newOracle(t, `{"categories": ["music", "other"]}`, func(_ context.Context, text string) string {
		if strings.Contains(text, "poison") {
			return `{"error": "ouch"}`
		}
		return class(0)
	})
	sorted(t, o.classification(), "a_bird,b_bird,c_bird,poison,d_bird,e_bird,f_bird").music(t, 6)
}

// One that is slow, but not too slow, doesn't delay each of many searches.
func TestSearchesAreNotDelayed(t *testing.T) {
	const task = "a bird"
	var slow atomic.Bool
	var waited atomic.Int64
	o := newOracle(t, `{"categories": ["music", "other"]}`, func(ctx context.Context, text string) string {
		if slow.Load() {
			if text == task {
				waited.Add(1)
			}
			select {
			case <-ctx.Done():
			case <-time.After(2 * time.Second):
			}
		}
		return class(0)
	})
	r := sorted(t, o.classification(), "a_bird")
	r.music(t, 1)
	find := func() {
		_, err := r.selector.Find(t.Context(), selector.Query{Task: task})
		expect.OK(t, err)
	}
	slow.Store(true)
	mcptest.WaitFor(t, "a search that waits, and then the next ones not to", func() bool {
		waited.Store(0)
		find()
		return waited.Load() == 1 && r.sorting.hurried.Load() > 0 // else its time was over before it had asked
	})
	hurried := time.Unix(0, r.sorting.hurried.Load())
	for range 11 {
		if find(); time.Now().After(hurried) { // this machine is so slow that one may have waited again
			break
		}
		if n := waited.Load(); n != 1 {
			t.Fatalf("%d searches waited for it", n)
		}
	}
}

// A long text is classified by its beginning.
func TestShortTexts(t *testing.T) {
	o := newOracle(t, `{"categories": ["music", "other"]}`, func(context.Context, string) string { return class(0) })
	c := o.classification()
	c.MaxText = 6
	r := sorted(t, c, "singing_bird")
	r.music(t, 1)
	if tag, _ := r.sorting.Category(t.Context(), "ä singing bird"); tag != "music" {
		t.Errorf("%q", tag)
	}
}

// Without categories of its own, a router sorts texts into capability tags: the tags of the taxonomy
// and of the servers' entries, in a fixed order.
func TestTagsAreCategories(t *testing.T) {
	browser := fake("browser")
	browser.Capabilities = []string{"Mine"}
	r := New(config.Config{Servers: []config.Server{browser}}, Options{Play: play.Server})
	categories := r.parts.Classifier().Categories(t.Context()).Categories
	if !slices.IsSorted(categories) || !slices.Contains(categories, "mine") || !slices.Contains(categories, "browser") || len(categories) < 30 {
		t.Errorf("%v", categories)
	}
	o, err := r.parts.Classifier().Classify(t.Context(), "take a screenshot of the web page in the browser")
	if err != nil || !slices.Contains([]string{"browser", "screenshot", "web"}, o.Category) {
		t.Errorf("%+v, %v", o, err)
	}
}
