package execute

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// A server gets its own keys, and clients read those that they know.
func TestKeys(t *testing.T) {
	odd := tool(`{"type":"object","properties":{"first_name":{},"at":{}},"required":["first_name"]}`)
	odd.Keys = map[string]string{"first_name": "first name", "_n": "$n"}
	odd.ServerSchema = json.RawMessage(`{"type":"object","properties":{"first name":{"type":"string"},"at":{"type":"object","properties":{"$n":{"type":"integer"}}}},"required":["first name"]}`)
	odd.Hints.ReadOnly = new(true)
	for _, tt := range []struct{ args, sent, shown, fault string }{
		{`{"first_name":"Ada","at":{"_n":1}}`, `{"first name":"Ada","at":{"$n":1}}`, "", ""},
		{`{"first name":"Ada"}`, `{"first name":"Ada"}`, "", ""},
		{`"{\"first_name\":\"Ada\"}"`, `{"first name":"Ada"}`, `{"first_name":"Ada"}`, ""},
		{`{"first_name":"Ada","at":"{\"_n\":1}"}`, `{"first name":"Ada","at":{"$n":1}}`, `{"first_name":"Ada","at":{"_n":1}}`, ""},
		{`{"input":{"first_name":"Ada"}}`, `{"first name":"Ada"}`, `{"first_name":"Ada"}`, ""},
		{`{"at":{}}`, "", "", "arguments: missing property 'first_name'"},
		{`{"first_name":1}`, "", "", "arguments.first_name: got number, want string"},
		{`{"first_name":"Ada","at":{"_n":"x"}}`, "", "", "arguments.at._n: got string, want integer"},
	} {
		var asked, sent string
		e := newExecutor(registry.New(), &stub{call: func(_ context.Context, params json.RawMessage) (json.RawMessage, error) {
			sent = string(params)
			return json.RawMessage(fine), nil
		}})
		r, err := e.Execute(t.Context(), Call{Tool: odd, Arguments: json.RawMessage(tt.args), Approve: func(_ context.Context, args json.RawMessage) error {
			asked = string(args)
			return nil
		}})
		expect.OK(t, err)
		c := e.Check(t.Context(), odd, json.RawMessage(tt.args))
		if tt.fault != "" {
			expect.Equal(t, strings.Join(c.Faults, "; "), tt.fault, "%s", tt.args)
			expect.Contains(t, textOf(r), tt.fault, "%s", tt.args)
			expect.Equal(t, sent, "", "%s", tt.args)
			continue
		}
		if tt.shown == "" {
			tt.shown = tt.args
		}
		expect.Equal(t, string(c.Arguments), tt.shown, "%s", tt.args)
		expect.Equal(t, string(c.Sent), tt.sent, "%s", tt.args)
		expect.Equal(t, asked, tt.sent, "%s", tt.args)
		expect.Equal(t, sent, `{"name":"original","arguments":`+tt.sent+`}`, "%s", tt.args)
	}
	broken := tool(`{"type":"object","properties":{"first_name":{}}}`)
	broken.Keys, broken.ServerSchema = odd.Keys, json.RawMessage(`{"type":7,"properties":{"first name":{}}}`)
	expect.Equal(t, string(newExecutor(registry.New(), &stub{}).Check(t.Context(), broken, json.RawMessage(`{"first_name":{"first_name":1},"_n":2}`)).Sent), `{"first name":{"first_name":1},"_n":2}`, "a schema that can't be compiled")
	clone := *odd
	clone.Fixed = json.RawMessage(`{"first name":"Ada"}`)
	c := newExecutor(registry.New(), &stub{}).Check(t.Context(), &clone, json.RawMessage(`{"first_name":"Eve"}`))
	expect.Equal(t, strings.Join(c.Faults, "; "), `arguments: "first_name" is fixed by the profile; leave it out`)
}
