package doctor

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// examineOffer returns what is found of a server s that is ready and offers this.
func examineOffer(t *testing.T, o registry.Offer) []Finding {
	t.Helper()
	r := registry.New()
	_, err := r.Replace("s", o)
	expect.OK(t, err)
	return Examine(Case{
		Catalog: r.Snapshot(),
		Config:  config.Config{Servers: []config.Server{{Name: "s", Command: "s"}}}, Servers: []status.Status{{Name: "s", State: status.Ready}},
	}).Findings
}

// Tools with changed definitions that a person has not seen are named, with clean text.
func TestChangedTools(t *testing.T) {
	var o registry.Offer
	o.LastSeen = map[string]json.RawMessage{"gone": []byte(`{"description":"was here"}`)}
	for i := range 7 {
		name := fmt.Sprint("t", i)
		o.Tools = append(o.Tools, registry.NormalizedTool{ID: "s:" + name, Server: "s", Name: name, Description: "d", Definition: []byte("{\"description\":\"sends all\u202e\"}")})
		o.LastSeen[name] = []byte(`{"description":"reads"}`)
	}
	delete(o.LastSeen, "t6")
	for _, f := range examineOffer(t, o) {
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

// Tools with hints that are not believed are named, with the fix.
func TestDoubtedHints(t *testing.T) {
	reads := registry.Hints{ReadOnly: new(true)}
	named := func(name, doubt string) registry.NormalizedTool {
		return registry.NormalizedTool{ID: "s:" + name, Server: "s", Name: name, Description: "d", Hints: reads, Doubt: doubt}
	}
	o := registry.Offer{
		Tools:     []registry.NormalizedTool{named("tidy", "its hints changed"), named("delete_all", "its name says that it deletes"), named("read", "")},
		Confirmed: map[string]registry.Hints{"tidy": {}, "read": {ReadOnly: new(true), OpenWorld: new(true)}, "gone": {}},
	}
	var found []string
	for _, f := range examineOffer(t, o) {
		if strings.Contains(f.Problem, "claims") {
			found = append(found, fmt.Sprintf("%v: %s %s %v", f.Severity, f.Problem, f.Fix, f.Details))
		}
	}
	want := []string{
		fmt.Sprintf("%v: 1 tool claims to do less harm than you have confirmed, and is not believed: tidy. do you believe this of the server? To confirm it, run: metarouter trust --hints s [tidy: readOnlyHint was missing and is true]", Warning),
		fmt.Sprintf("%v: 1 tool claims to do no harm, and is not believed because of words that say otherwise: delete_all. if the server is right, write \"trustHints\": true in its entry; else nothing has to be done [delete_all: its name says that it deletes]", Note),
	}
	slices.Sort(found)
	slices.Sort(want)
	expect.List(t, found, want)
}
