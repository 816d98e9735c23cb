package adapter

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/selector"
	"github.com/mcp-metarouter/metarouter/test/layer"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

// Tools and tasks get the tag of the category into which an outside server sorts
// them, once it can be reached.
func TestOutsideTags(t *testing.T) {
	layer.Integration(t)
	var down atomic.Bool
	down.Store(true)
	classification := config.DefaultClassification()
	classification.Fallback = "other"
	classification.Outside = &config.Outside{
		URL: neighbour(t, &down), ClassifyTool: "classify_text", ListTool: "list_categories",
		Timeout: time.Minute, CacheCategories: true, RefreshInterval: time.Minute,
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
	ranking, err := r.selector.Find(t.Context(), selector.Query{Task: "let it sing like a bird"})
	if err != nil || len(ranking.Candidates) == 0 {
		t.Fatalf("%+v, %v", ranking, err)
	}
	i := slices.IndexFunc(ranking.Candidates, func(c selector.Candidate) bool { return c.Tool.Name == "singing_bird" })
	if i != 0 || featureOf(t, r, "let it sing like a bird", ranking.Candidates[0], "category") != 0.9 {
		t.Errorf("%+v", ranking.Candidates)
	}
}

// An outside server that hangs from the beginning delays only a search, for half a second.
func TestOutsideHangsAtStart(t *testing.T) {
	layer.Integration(t)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body) // so that it is noticed when the client leaves
		<-r.Context().Done()
	}))
	t.Cleanup(server.Close)
	classification := (&oracle{url: server.URL}).classification()
	classification.Outside.Timeout = time.Hour
	classification.Categories = []config.Category{{Name: "music", Keywords: []string{"bird"}}, {Name: "other"}} // few, which it learns at once
	r, _ := runningWith(t, config.Config{
		Servers: []config.Server{fake("s", "-tools", "a_bird")},
		Router:  config.Router{Classification: classification},
	}, Options{})
	settled(t, r)
	h := r.parts.Classifier().Health()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if _, err := r.selector.Find(ctx, selector.Query{Task: "a bird"}); err != nil || ctx.Err() != nil || !h.Degraded() || h.Outside.State != "starting" {
		t.Errorf("%v, %v, %+v", err, ctx.Err(), h.Outside)
	}
}
