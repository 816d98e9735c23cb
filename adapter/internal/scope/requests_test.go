package scope

import (
	"encoding/json"
	"testing"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/profile"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// Clients of a profile hear nothing of hidden servers and resources, and call no tool that they do not see, that is another one by
// now, or that is another server's.
func TestHiddenFromClients(t *testing.T) {
	rules := profile.Of(map[string]config.Profile{"p": {Servers: []string{"a"}, Deny: []string{"a:file:///secret"}}}, "p")
	catalog := registry.New()
	tool := registry.NormalizedTool{ID: "a:x", Server: "a", Name: "x"}
	if _, err := catalog.Replace("a", registry.Offer{Tools: []registry.NormalizedTool{tool}}); err != nil {
		t.Fatal(err)
	}
	v := &Visible{Limits: &Limits{Rules: rules, whole: catalog.Snapshot}, Snapshot: catalog.Snapshot()}
	for _, tt := range []struct {
		server, method, uri string
		want                bool
	}{
		{"a", "notifications/message", "", true},
		{"b", "notifications/message", "", false},
		{"a", "notifications/resources/updated", "file:///open", true},
		{"a", "notifications/resources/updated", "file:///secret", false},
		{"b", "notifications/resources/updated", "file:///open", false},
	} {
		got := v.Hears(tt.server, session.Message{Method: tt.method, Params: json.RawMessage(`{"uri":"` + tt.uri + `"}`)})
		expect.Equal(t, got, tt.want, "%s of %s about %q", tt.method, tt.server, tt.uri)
	}
	now, _ := v.Snapshot.Tool("a:x")
	other := *now
	for name, tt := range map[string]struct {
		tool *registry.NormalizedTool
		want string
	}{
		"listed":    {now, ""},
		"unknown":   {&registry.NormalizedTool{ID: "a:y", Server: "a"}, `unknown tool "a:y"`},
		"another's": {&registry.NormalizedTool{ID: "a:x", Server: "b"}, `unknown tool "a:x"`},
		"changed":   {&other, "a:x was not run: the tool has changed since it was looked up; call it again"},
	} {
		got := ""
		if err := v.Callable(tt.tool); err != nil {
			got = err.Error()
		}
		expect.Contains(t, got, tt.want, "%s", name)
		expect.Equal(t, got == "", tt.want == "", "%s is callable", name)
	}
}
