package adapter

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/mcptest"
	"github.com/mcp-metarouter/metarouter/selector"
)

// neighbour is an outside classification server of plain JSON-RPC. Whatever sings is
// music to it.
func neighbour(t *testing.T, down *atomic.Bool) string {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct {
			Params struct {
				Name      string
				Arguments struct{ Text string }
			}
		}
		if down.Load() || json.NewDecoder(r.Body).Decode(&m) != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		text := `{"categories": ["Music", "other"]}`
		switch {
		case m.Params.Name != "classify_text":
		case strings.Contains(m.Params.Arguments.Text, "sing"):
			text = `{"class": 0, "confidence": 0.9}`
		default:
			text = `{"class": 1, "confidence": 0.9}`
		}
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(map[string]any{"result": map[string]any{"content": []any{map[string]any{"type": "text", "text": text}}}})
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// Tools and tasks get the tag of the category into which an outside server sorts
// them, once it can be reached.
func TestOutsideTags(t *testing.T) {
	var down atomic.Bool
	down.Store(true)
	classification := config.DefaultClassification()
	classification.Fallback = "other"
	classification.Outside = &config.Outside{
		URL: neighbour(t, &down), ClassifyTool: "classify_text", ListTool: "list_categories",
		Timeout: 5 * time.Second, CacheCategories: true, RefreshInterval: time.Minute,
	}
	r, _ := runningWith(t, config.Config{
		Servers: []config.Server{fake("s", "-tools", "singing_bird,stone,plain_bird")},
		Router:  config.Router{Classification: classification},
	}, Options{})
	settled(t, r)
	if found := r.FindByCapability("music"); len(found) != 0 {
		t.Fatalf("music before anybody said so: %v", found[0])
	}
	down.Store(false)
	mcptest.WaitFor(t, "the tag", func() bool { return len(r.FindByCapability("music")) == 1 })
	if found := r.FindByCapability("music"); found[0].ID != "s:singing_bird" || len(r.FindByCapability("other")) != 0 {
		t.Errorf("music: %s", found[0].ID)
	}
	ranking, err := r.Find(t.Context(), selector.Query{Task: "let it sing like a bird"})
	if err != nil || len(ranking.Candidates) == 0 {
		t.Fatalf("%+v, %v", ranking, err)
	}
	i := slices.IndexFunc(ranking.Candidates, func(c selector.Candidate) bool { return c.Tool.Name == "singing_bird" })
	if i != 0 || ranking.Candidates[0].Features[selector.CategoryFeature] != 0.9 {
		t.Errorf("%+v", ranking.Candidates)
	}
}

// Without categories of its own, capability tags are what texts are sorted into: those
// of the taxonomy and of the servers' entries, in a fixed order.
func TestTagsAreCategories(t *testing.T) {
	browser := fake("browser")
	browser.Capabilities = []string{"Mine"}
	r := New(config.Config{Servers: []config.Server{browser}}, Options{})
	categories := r.Classifier().Categories(t.Context()).Categories
	if !slices.IsSorted(categories) || !slices.Contains(categories, "mine") || !slices.Contains(categories, "browser") || len(categories) < 30 {
		t.Errorf("%v", categories)
	}
	o, err := r.Classifier().Classify(t.Context(), "take a screenshot of the web page in the browser")
	if err != nil || !slices.Contains([]string{"browser", "screenshot", "web"}, o.Category) {
		t.Errorf("%+v, %v", o, err)
	}
}
