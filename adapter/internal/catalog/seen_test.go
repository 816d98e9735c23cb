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
			expect.Equal(t, held, want, "%s: … is held", when)
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
