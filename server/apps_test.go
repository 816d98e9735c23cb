package server

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/internal/exposure"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/server/internal/conversation"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// Tools for the user interface of their server alone are listed for clients that show it, and are in no
// answer for a model.
func TestAppTools(t *testing.T) {
	both, app := tool("a", "show_orders"), tool("a", "refresh_orders")
	both.Definition = json.RawMessage(`{"name":"show_orders","inputSchema":{"type":"object"},"_meta":{"ui":{"resourceUri":"ui://a/x","visibility":["model","app"]}}}`)
	app.Definition = json.RawMessage(`{"name":"refresh_orders","inputSchema":{"type":"object"},"_meta":{"ui":{"resourceUri":"ui://a/x","visibility":["app"]}}}`)
	r := newFake(both, app)
	s := newAlone(r, Options{Mode: exposure.Direct})
	list := func(capabilities string) string {
		params := json.RawMessage(`{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":` + capabilities + `}}`)
		r, err := s.clients.Visit(false, conversation.Identity{}, "").Begin(t.Context(), conversation.Read(wire.Message{ID: json.RawMessage("1"), Method: "tools/list", Params: params}), nil)
		expect.OK(t, err)
		defer r.Refuse(context.Canceled)
		raw, err := s.list(t.Context(), conversation.Call{Request: r, From: r})
		expect.OK(t, err)
		return string(raw)
	}
	if got := list(`{}`); strings.Contains(got, "refresh_orders") || !strings.Contains(got, "show_orders") {
		t.Errorf("a client without user interfaces: %s", got)
	}
	if got := list(`{"extensions":{"io.modelcontextprotocol/ui":{}}}`); !strings.Contains(got, `"a__refresh_orders","inputSchema":{"type":"object"},"_meta":{"ui":{"resourceUri":"ui://a/x","visibility":["app"]}}`) {
		t.Errorf("a client with user interfaces: %s", got)
	}
	raw, err := perform(t.Context(), s, []byte(`{"name":"a__refresh_orders","arguments":{"n":1}}`))
	if name, _ := wire.String(wire.Member(raw, "tool")); err != nil || name != "a:refresh_orders" {
		t.Errorf("called by name: %s, %v", raw, err)
	}
	described := calls[struct{ Tools []description }](t, s, "describe_tools", `{"ids":["a:refresh_orders"]}`).StructuredContent.Tools
	if len(described) != 1 || described[0].Definition != nil || !strings.Contains(described[0].Error, "user interface") {
		t.Errorf("described: %+v", described)
	}
}
