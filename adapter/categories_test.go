package adapter

import (
	"slices"
	"testing"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/test/play"
)

// Without categories of its own, a router sorts texts into capability tags: the tags of the taxonomy
// and of the servers' entries, in a fixed order.
func TestTagsAreCategories(t *testing.T) {
	browser := fake("browser")
	browser.Capabilities = []string{"Mine"}
	r := New(config.Config{Servers: []config.Server{browser}}, Options{Play: play.Server})
	categories := r.Classifier().Categories().Categories
	if !slices.IsSorted(categories) || !slices.Contains(categories, "mine") || !slices.Contains(categories, "browser") || len(categories) < 30 {
		t.Errorf("%v", categories)
	}
	o, err := r.Classifier().Classify(t.Context(), "take a screenshot of the web page in the browser")
	if err != nil || !slices.Contains([]string{"browser", "screenshot", "web"}, o.Category) {
		t.Errorf("%+v, %v", o, err)
	}
}
