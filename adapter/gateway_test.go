package adapter_test

import (
	"context"
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/clusternode"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/server"
	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

// A node can pass on the answer to a question that this router has asked, and nothing else: whatever the node says, no
// request begins anything, or goes on with a call of another principal or of other profiles.
func TestServeGateway(t *testing.T) {
	b := newBox(t, "-tools", "ask")
	h := b.servers.Handler(server.HTTPOptions{})
	s := httptest.NewServer(h)
	t.Cleanup(func() {
		s.Close()
		h.Close(context.Background())
	})
	client := mcptest.NewHTTPClient(t, s.URL+"/mcp")
	client.Declare(`{"elicitation":{"form":{}}}`)
	const ask = `"arguments":{"method":"elicitation/create"},"name":"gpu__ask"` // in the order of the client
	suspend := func() (answer string) {
		t.Helper()
		result, err := client.Request(t.Context(), "tools/call", json.RawMessage("{"+ask+"}"))
		state, _ := wire.String(wire.Member(result, "requestState"))
		if err != nil || !strings.HasPrefix(state, "mr1.") || !strings.HasSuffix(state, "@UABOX.R") {
			t.Fatalf("%s, %v", result, err)
		}
		return `,"requestState":"` + state + `","inputResponses":{"` + questionIn(result) + `":{"action":"accept","content":{"name":"Ann"}}}`
	}
	_, err := client.Discover(t.Context())
	expect.OK(t, err)
	answer := suspend()
	nobody, able, unable := by(""), modern(`{"elicitation":{"form":{}}}`), modern(`{}`)
	profile := &clusternode.Request{Origin: &session.Origin{Profile: "dev"}}
	for name, r := range map[string]struct {
		method, members string
		about           *clusternode.Request
		meta            map[string]any
		want            string
	}{
		"a new call":                   {"tools/call", ask, nobody, able, "not valid"},
		"a new call without answers":   {"tools/call", ask, nobody, unable, "not valid"},
		"a list":                       {"tools/list", "", nobody, able, "not valid"},
		"a list with a state":          {"tools/list", answer[1:], nobody, able, "not valid"},
		"a legacy call":                {"tools/call", ask + answer, nobody, nil, "protocolVersion"},
		"another tool":                 {"tools/call", strings.Replace(ask, "gpu__ask", "gpu__echo", 1) + answer, nobody, able, "not valid"},
		"another tool, no answers":     {"tools/call", strings.Replace(ask, "gpu__ask", "gpu__echo", 1) + answer, nobody, unable, "not valid"},
		"another method":               {"prompts/get", ask + answer, nobody, able, "not valid"},
		"another principal":            {"tools/call", ask + answer, by("bob"), able, "not valid"},
		"another profile":              {"tools/call", ask + answer, profile, able, "not valid"},
		"a call without the principal": {"tools/call", ask + answer, nil, able, "metarouter/node"},
	} {
		gateway := b.dialFor("")
		contains(t, name, gateway.ask(r.method, r.members, r.about, r.meta), `"error"`, r.want)
		gateway.close()
	}
	b.lapsed.Store(true)
	contains(t, "a frozen gateway", b.dialFor("").ask("tools/call", ask+answer, nobody, able), `"error"`, "frozen")
	b.lapsed.Store(false)
	contains(t, "the answer", b.dialFor("").ask("tools/call", ask+answer, nobody, able), `"result"`, "Ann", `"resultType":"complete"`)
	contains(t, "the answer again", b.dialFor("").ask("tools/call", ask+answer, nobody, able), "not valid")

	answer = suspend()
	gone := b.config
	gone.Router.Cluster = &config.Cluster{Name: "test", Share: []string{"gpu"}}
	b.edits <- gone
	mcptest.WaitFor(t, "the end of the trust", func() bool {
		return strings.Contains(b.dialFor("").ask("tools/list", "", nobody, able), "no server")
	})
	contains(t, "a node without trust", b.dialFor("").ask("tools/call", ask+answer, nobody, able), `"error"`, "no server")
}
