package adapter

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/selector"
	"github.com/mcp-metarouter/metarouter/test/layer"
)

// Tools and tasks get the tag of the category into which an outside server sorts
// them, once it can be reached.
func TestOutsideTags(t *testing.T) {
	layer.Integration(t)
	o := newOracle(t, `{"categories": ["Music", "other"]}`, songs)
	o.down.Store(true)
	r := sorted(t, o.classification(), "singing_bird,stone,plain_bird")
	if found := r.FindByCapability("music"); len(found) != 0 {
		t.Fatalf("music before anybody said so: %v", found[0])
	}
	o.down.Store(false)
	r.music(t, 1)
	if found := r.FindByCapability("music"); found[0].ID != "s:singing_bird" || len(r.FindByCapability("other")) != 0 {
		t.Errorf("music: %s", found[0].ID)
	}
	ranking, err := r.selector.Find(t.Context(), selector.Query{Task: "let it sing like a bird"})
	if err != nil || len(ranking.Candidates) == 0 {
		t.Fatalf("%+v, %v", ranking, err)
	}
	best := ranking.Candidates[0]
	all, err := r.Explain(t.Context(), "let it sing like a bird", []selector.Candidate{best})
	if err != nil || best.Tool.Name != "singing_bird" || !strings.Contains(fmt.Sprintf("%+v", all[0].Features), "Label:the category of the task Value:0.9 ") {
		t.Errorf("%+v, %v for %s", all, err, best.Tool.Name)
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
	r := sorted(t, classification, "a_bird")
	h := r.parts.Classifier().Health()
	if _, err := r.selector.Find(t.Context(), selector.Query{Task: "a bird"}); err != nil || !h.Degraded() || h.Outside.State != "starting" {
		t.Errorf("%v, %+v", err, h.Outside)
	}
}
