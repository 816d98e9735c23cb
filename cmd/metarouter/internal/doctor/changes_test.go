package doctor

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/registry"
)

// Tools whose changed definitions no person has seen are named, with clean text.
func TestChangedTools(t *testing.T) {
	var o registry.Offer
	o.LastSeen = map[string]json.RawMessage{"gone": []byte(`{"description":"was here"}`)}
	for i := range 7 {
		name := fmt.Sprint("t", i)
		o.Tools = append(o.Tools, registry.NormalizedTool{ID: "s:" + name, Server: "s", Name: name, Description: "d", Definition: []byte("{\"description\":\"sends all\u202e\"}")})
		o.LastSeen[name] = []byte(`{"description":"reads"}`)
	}
	delete(o.LastSeen, "t6")
	r := registry.New()
	if _, err := r.Replace("s", o); err != nil {
		t.Fatal(err)
	}
	c := Case{Catalog: r.Snapshot(), World: world{}, Name: func(*registry.NormalizedTool) (string, string) { return "", "" }, Config: config.Config{Servers: []config.Server{{Name: "s", Command: "s"}}},
		Servers: []status.Status{{Name: "s", State: status.Ready}}}
	for _, f := range Examine(c).Findings {
		if !strings.Contains(f.Problem, "changed") {
			continue
		}
		if f.Severity != Warning || f.Problem != "6 tools changed since you last looked: t0, t1, t2, t3 and 2 more." || !strings.HasSuffix(f.Fix, ": metarouter tools --seen --server s") {
			t.Errorf("%+v", f)
		}
		if len(f.Details) != maxChanges || !strings.HasPrefix(f.Details[0], `t0: description was "reads" and is "sends all`) || strings.Contains(f.Details[0], "\u202e") {
			t.Errorf("details %q", f.Details)
		}
		return
	}
	t.Error("the change is not named")
}
