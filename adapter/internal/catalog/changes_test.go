package catalog

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

func toolsOf(definitions ...string) (tools []registry.NormalizedTool) {
	for i, d := range definitions {
		tools = append(tools, registry.NormalizedTool{Name: fmt.Sprint("t", i), Definition: json.RawMessage(d)})
	}
	return tools
}

func TestChanges(t *testing.T) {
	const base = `{"name":"t0","description":"Reads a file","inputSchema":{"type":"object","properties":{"a":{"enum":["x","y"]}},"required":["a","b"]}}`
	for name, tc := range map[string]struct{ after, want string }{
		"the same":         {base, ""},
		"another order":    {`{"inputSchema":{"required":["b","a"],"type":"object","properties":{"a":{"enum":["y","x"]}}},"name":"t0","description":"Reads a file"}`, ""},
		"icons":            {strings.Replace(base, `"name"`, `"icons":[],"name"`, 1), ""},
		"description":      {strings.Replace(base, "Reads", "Reads and sends\u202e", 1), `t0: description was "Reads a file" and is "Reads and sends a file"`},
		"no description":   {strings.Replace(base, `"description":"Reads a file",`, "", 1), `t0: description was "Reads a file" and is missing`},
		"schema":           {strings.Replace(base, `"required":["a","b"]`, `"required":["a"]`, 1), `t0: inputSchema was …"]}},"required":["a","b"]} and is …"]}},"required":["a"]}`},
		"annotations":      {strings.Replace(base, `"name"`, `"annotations":{"readOnlyHint":true},"name"`, 1), `t0: annotations was missing and is {"readOnlyHint":true}`},
		"long description": {strings.Replace(base, "Reads", strings.Repeat("x", 10_000), 1), ""},
	} {
		changed, added, removed, details := changesOf(toolsOf(base, "{}"), toolsOf(tc.after, "{}"))
		got := strings.Join(details, "|")
		if name == "long description" {
			if changed != 1 || len(got) > 3*maxChanged {
				t.Errorf("%s: %d, %q", name, changed, got)
			}
			continue
		}
		if added+removed != 0 || changed != len(details) || tc.want == "" && changed != 0 || tc.want != "" && strings.ReplaceAll(got, "  ", " ") != tc.want {
			t.Errorf("%s: %d changed, %d added, %d removed: %q, want %q", name, changed, added, removed, got, tc.want)
		}
	}
	var many []string
	for range 50 {
		many = append(many, base)
	}
	changed, added, removed, details := changesOf(toolsOf(many...), toolsOf(append([]string{"{}"}, many[:30]...)...))
	if changed != 1 || added != 0 || removed != 19 || len(details) != 1 {
		t.Errorf("%d changed, %d added, %d removed: %q", changed, added, removed, details)
	}
	changed, added, _, details = changesOf(toolsOf(many...), toolsOf(append(strings.Split(strings.Repeat("{}\n", 50), "\n")[:50], base)...))
	if changed != 50 || added != 1 || len(details) != maxChanges {
		t.Errorf("%d changed, %d added, %d details", changed, added, len(details))
	}
}

// The definition that a person last saw is kept until the new one is seen or the old one is back, across
// restarts and edits, for a tool that is gone for a while too.
func TestLastSeen(t *testing.T) {
	definition := func(n string) string { return fmt.Sprintf(`{"name":"t","description":%q,"inputSchema":{}}`, n) }
	entry := config.Server{Name: "s", Transport: config.Stdio, Command: "s"}
	data := t.TempDir()
	open := func() *Writer { return opened(data, one(entry)) }
	w := open()
	list := func(definitions ...string) {
		t.Helper()
		var o registry.Offer
		for i, d := range definitions {
			name := fmt.Sprint("t", i)
			o.Tools = append(o.Tools, registry.NormalizedTool{ID: "s:" + name, Server: "s", Name: name, Definition: json.RawMessage(d)})
		}
		w.storeOffer(t, entry, o)
	}
	check := func(when, want string) {
		t.Helper()
		for _, of := range []*Writer{w, open()} {
			expect.Equal(t, string(of.registry.Snapshot().Offer("s").LastSeen["t0"]), want, "%s: last seen", when)
		}
	}
	a, b, c := definition("a"), definition("b"), definition("c")
	list(a)
	check("first list", "")
	list(b)
	check("changed", a)
	w = open()
	list(c, a)
	check("changed again, after a restart", a)
	list(a)
	check("changed back", "")
	list()
	list(c)
	check("gone and back with another definition", a)
	entry.Args = []string{"edited"}
	list(c)
	check("the entry was edited", a)
	expect.OK(t, w.Seen("s"))
	check("seen", "")
	list(c)
	check("the same again", "")
	list(a)
	check("changed after it was seen", c)
	list(b)
	list(`{"name":"t","inputSchema":{},"description":"c"}`)
	check("changed back but for the order", "")
	entry.Args = []string{"edited while no router runs"}
	w = open()
	list(b)
	check("the entry was edited while no router ran", `{"name":"t","inputSchema":{},"description":"c"}`)
	entry.Args = []string{"edited again"}
	w = open()
	list(a)
	check("both, again", `{"name":"t","inputSchema":{},"description":"c"}`)
}

// With "newTools": "hold", a tool that is new or has changed is held until a person has seen it; the first
// list of a server is not.
func TestHeldTools(t *testing.T) {
	entry := config.Server{Name: "s", Transport: config.Stdio, Command: "s", NewTools: "hold"}
	data := t.TempDir()
	w := opened(data, one(entry))
	list := func(definitions ...string) {
		t.Helper()
		var o registry.Offer
		for i, d := range definitions {
			name := fmt.Sprint("t", i)
			o.Tools = append(o.Tools, registry.NormalizedTool{ID: "s:" + name, Server: "s", Name: name, Definition: json.RawMessage(`{"description": "` + d + `"}`)})
		}
		w.storeOffer(t, entry, o)
	}
	check := func(when, want string) {
		t.Helper()
		for _, of := range []*Writer{w, opened(data, one(entry))} {
			held := ""
			for _, tool := range of.registry.Snapshot().Offer("s").Tools {
				if tool.Held {
					held += tool.Name
				}
			}
			if held != want {
				t.Errorf("%s: %q is held, want %q", when, held, want)
			}
		}
	}
	list("a")
	check("first list", "")
	list("a", "b")
	check("a new tool", "t1")
	list("c", "b")
	check("a changed tool", "t0t1")
	list("a", "b")
	check("it changed back", "t1")
	list("a")
	list("a", "b")
	check("the new one was gone meanwhile", "t1")
	entry.Args = []string{"edited"}
	list("a", "b", "c")
	check("the entry was edited", "t1t2")
	entry.NewTools = "show"
	w.Configure(one(entry))
	check("not held any more", "")
	entry.NewTools = "hold"
	w.Configure(one(entry))
	check("held again", "t1t2")
	expect.OK(t, w.Seen("s"))
	check("seen", "")
	list("a", "b", "c")
	check("the same again", "")
}

func TestLastSeenBounds(t *testing.T) {
	offer := func(n, size int, text string) (o registry.Offer) {
		for i := range n {
			o.Tools = append(o.Tools, registry.NormalizedTool{Name: fmt.Sprint("t", i), Definition: json.RawMessage(`{"description":"` + strings.Repeat(text, size) + `"}`)})
		}
		return o
	}
	for _, size := range []int{10, 100 << 10} {
		before := offer(300, size, "a")
		seen := lastSeen(before, offer(300, size, "b").Tools, false)
		kept, bytes := 0, 0
		for _, d := range seen {
			if bytes += len(d); d != nil {
				kept++
			}
		}
		if len(seen) != 300 || kept == 0 || kept > maxLastSeen || bytes > maxLastSeenBytes {
			t.Errorf("%d noted, %d kept, %d bytes", len(seen), kept, bytes)
		}
		if seen := lastSeen(before, nil, false); len(seen) > maxLastSeen {
			t.Errorf("%d tools that are gone are kept", len(seen))
		}
	}
}
