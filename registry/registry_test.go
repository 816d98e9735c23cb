package registry

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

func tool(server, name, description string, tags ...string) NormalizedTool {
	return NormalizedTool{
		ID: ID(server, name), Server: server, Name: name, Description: description, Capabilities: tags,
		InputSchema: json.RawMessage(`{"type":"object"}`),
	}
}

func replace(t testing.TB, r *Registry, server string, tools ...NormalizedTool) bool {
	t.Helper()
	changed, err := r.Replace(server, Offer{Tools: tools})
	expect.OK(t, err)
	return changed
}

func ids[T keyed](list []T) []string {
	var all []string
	for _, t := range list {
		id, _, _ := t.key()
		all = append(all, id)
	}
	return all
}

func want(t testing.TB, what string, got []string, want ...string) {
	t.Helper()
	expect.List(t, got, want, "%s", what)
}

func TestSnapshot(t *testing.T) {
	r := New()
	before := r.Snapshot()
	replace(t, r, "web", tool("web", "open", "", "browser", "web"), tool("web", "click", "", "browser"))
	replace(t, r, "a", tool("a", "z", ""), tool("a", "b:c", "", "web"))
	replace(t, r, "a:b", tool("a:b", "d", ""))
	s := r.Snapshot()

	want(t, "tools of the snapshot before", ids(before.Tools()))
	want(t, "tools", ids(s.Tools()), "a:b:c", "a:b:d", "a:z", "web:click", "web:open")
	want(t, "tools in the server's order", ids(s.Offer("web").Tools), "web:open", "web:click")
	want(t, "browser", ids(s.FindByCapability("browser")), "web:click", "web:open")
	want(t, "Browser and web", ids(s.FindByCapability(" Browser", "web")), "web:open")
	want(t, "no tag", ids(s.FindByCapability()))
	want(t, "unknown tag", ids(s.FindByCapability("mail")))
	if n := s.Capabilities(); len(n) != 2 || n["browser"] != 2 || n["web"] != 2 {
		t.Errorf("capabilities: %v", n)
	}
	for _, tool := range s.Tools() {
		if got, ok := s.Tool(tool.ID); !ok || got != tool {
			t.Errorf("Tool(%q) = %v, %v", tool.ID, got, ok)
		}
	}
	if _, ok := s.Tool("a:y"); ok {
		t.Error("found a tool that is not there")
	}

	r.Remove("web")
	want(t, "tools without web", ids(r.Snapshot().Tools()), "a:b:c", "a:b:d", "a:z")
	want(t, "tools of the snapshot before that", ids(s.Offer("web").Tools), "web:open", "web:click")
}

func TestReplaceSignalsChangesOnly(t *testing.T) {
	r := New()
	listing := []NormalizedTool{tool("s", "one", "first", "web"), tool("s", "two", "second")}
	signalled := func(f func()) bool {
		changed := r.Changed()
		f()
		select {
		case <-changed:
			return true
		default:
			return false
		}
	}
	expect.Equal(t, signalled(func() { replace(t, r, "s", listing...) }), true, "the first listing signals")
	one, _ := r.Snapshot().Tool("s:one")
	version := r.Snapshot().Version
	if signalled(func() {
		expect.Equal(t, replace(t, r, "s", tool("s", "one", "first", "web"), tool("s", "two", "second")), false, "an equal listing is a change")
		r.Remove("unknown")
		replace(t, r, "unknown")
	}) || r.Snapshot().Version != version {
		t.Error("nothing changed, but it was signalled")
	}
	listing[1].Description = "other"
	if two, _ := r.Snapshot().Tool("s:two"); two.Description != "second" {
		t.Error("the caller's slice is the registry's")
	}
	expect.Equal(t, signalled(func() { replace(t, r, "s", listing...) }), true, "an edit signals")
	if same, _ := r.Snapshot().Tool("s:one"); same != one {
		t.Error("a tool that stayed as it was has lost its identity")
	}
	expect.Equal(t, signalled(func() { replace(t, r, "s", listing[1], listing[0]) }), true, "another order signals")
	expect.Equal(t, signalled(func() { r.Remove("s") }), true, "a removal signals")
}

func TestReplaceRefusesWhatIsNotTheServers(t *testing.T) {
	r := New()
	replace(t, r, "s", tool("s", "one", ""))
	wrongID := tool("s", "two", "")
	wrongID.ID = "s:one"
	for _, bad := range [][]NormalizedTool{
		{tool("other", "two", "")},
		{wrongID},
		{tool("s", "two", ""), tool("s", "two", "")},
	} {
		if changed, err := r.Replace("s", Offer{Tools: bad}); err == nil || changed {
			t.Errorf("Replace(%v) = %v, %v", bad, changed, err)
		}
	}
	want(t, "tools", ids(r.Snapshot().Tools()), "s:one")
}

// Several servers are replaced in one change, and what stayed the same is the same.
func TestReplaceSome(t *testing.T) {
	r := New()
	offer := func(ids ...string) (o Offer) {
		for _, id := range ids {
			server, name, _ := strings.Cut(id, ":")
			o.Tools = append(o.Tools, NormalizedTool{ID: id, Server: server, Name: name})
		}
		return o
	}
	if changed, err := r.ReplaceSome(map[string]Offer{"a": offer("a:1", "a:2"), "b": offer("b:1")}); !changed || err != nil || len(r.Snapshot().Tools()) != 3 || r.Snapshot().Version != 1 {
		t.Errorf("%v, %v: %v", changed, err, r.Snapshot().Tools())
	}
	kept, signal := r.Snapshot().Tools()[0], r.Changed()
	if changed, err := r.ReplaceSome(map[string]Offer{"a": offer("a:1"), "c": offer("c:1")}); !changed || err != nil || len(r.Snapshot().Tools()) != 3 || r.Snapshot().Tools()[0] != kept || r.Snapshot().Version != 2 {
		t.Errorf("%v, %v: %v", changed, err, r.Snapshot().Tools())
	}
	<-signal
	if changed, err := r.ReplaceSome(map[string]Offer{"a": offer("a:1"), "d": {}}); changed || err != nil {
		t.Errorf("%v, %v", changed, err)
	}
	if changed, err := r.ReplaceSome(map[string]Offer{"a": offer("b:1"), "c": {}}); changed || err == nil || len(r.Snapshot().Tools()) != 3 {
		t.Errorf("%v, %v: %v", changed, err, r.Snapshot().Tools())
	}
}
