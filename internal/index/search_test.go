package index

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/internal/taglist"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// One catalog gives one ranking, with the same scores, whatever the history of updates.
func TestHistoryDoesNotMatter(t *testing.T) {
	all := catalog(400)
	for server, tools := range all { // copies, whose scores are equal
		if len(tools) > 3 {
			all[server] = append(tools, renamed(tools[0], "copy1"), renamed(tools[0], "copy2"))
		}
	}
	fresh, edited := open(t), open(t)
	for server, tools := range all {
		replace(t, fresh, server, tools...)
	}
	want := tools(t, fresh)
	for round := range 4 {
		for server, now := range all {
			replace(t, edited, server, append(now[round:len(now):len(now)], tool(server, "gone", fmt.Sprint("wa1 wb2 gone", round)))...)
			tools(t, edited)
		}
	}
	for server, now := range all {
		replace(t, edited, server, now...)
	}
	got := tools(t, edited)
	if n := edited.tools.updates; n < 2 {
		t.Fatalf("only %d updates since the index was made", n)
	}
	compare := func(what string) {
		t.Helper()
		for i, one := range fresh.Snapshot().Tools() {
			if i%17 > 0 {
				continue
			}
			for _, limit := range []int{1, 10, 1000} {
				text := one.Description
				if i%2 == 0 {
					text = strings.Join(strings.Fields(text)[:3], " ")
				}
				q := Query{Words: Words(text), Limit: limit}
				wanted, err := want.Search(t.Context(), q)
				expect.OK(t, err)
				found, err := got.Search(t.Context(), q)
				if a, b := listed(found), listed(wanted); err != nil || !slices.Equal(a, b) {
					t.Fatalf("%s, %q: %q, %v; want %q", what, text, a, err, b)
				}
			}
		}
	}
	compare("after updates")
	if err := edited.tools.renew(); err != nil || edited.tools.updates > 0 {
		t.Fatal("not made again", err)
	}
	compare("made again")
}

func renamed(t registry.NormalizedTool, name string) registry.NormalizedTool {
	t.ID, t.Name = registry.ID(t.Server, name), name
	return t
}

func tools(t *testing.T, r *searchable) *Collection {
	t.Helper()
	c, err := r.Tools(t.Context())
	expect.OK(t, err)
	return c
}

// A limit and filters leave the rest of what is found as it is.
func TestSearchIsLimited(t *testing.T) {
	r := open(t)
	for server, tools := range catalog(200) {
		for i := range tools {
			tools[i].Capabilities = taglist.Clean([]string{"web", fmt.Sprintf("third%d", i%3)})
		}
		replace(t, r, server, tools...)
	}
	q := Query{Words: Words(strings.Join(strings.Fields(r.Snapshot().Tools()[7].Description)[:12], " ") + " web"), Limit: 1000}
	all := hits(t, r, q)
	for limit := 1; limit < 12; limit++ {
		q.Limit = limit
		expect.List(t, hits(t, r, q), all[:limit], "the first %d", limit)
	}
	q.Servers, q.Capabilities, q.AtLeast, q.Limit = []string{"server1", "server4"}, []string{"web", "third1", "none"}, 2, 2
	c, err := r.Tools(t.Context())
	expect.OK(t, err)
	var want []string
	for _, id := range all {
		tool, _ := r.Snapshot().Tool(id)
		if d, ok := c.Document(registry.Item{Tool: tool}); ok && q.Admits(d) {
			want = append(want, id)
		}
	}
	if got := hits(t, r, q); len(want) < 3 || !slices.Equal(got, want[:2]) {
		t.Errorf("of two servers with two capabilities there are %q, want %q", got, want)
	}
}

// A tool that models may not see is not indexed.
func TestToolsForModels(t *testing.T) {
	r := open(t)
	var tools []registry.NormalizedTool
	for name, visibility := range map[string]string{"app": `["app"]`, "none": `[]`, "both": `["model","app"]`, "wrong": `"app"`} {
		one := tool("a", name, "Shows the orders")
		one.Definition = json.RawMessage(`{"_meta":{"ui":{"visibility":` + visibility + `}}}`)
		tools = append(tools, one)
	}
	replace(t, r, "a", tools...)
	c, err := r.Tools(t.Context())
	expect.OK(t, err)
	var found []string
	for _, d := range c.Documents() {
		found = append(found, d.Tool.Name)
	}
	if len(found) != 2 || found[0] != "both" || found[1] != "wrong" {
		t.Errorf("found %v", found)
	}
}
