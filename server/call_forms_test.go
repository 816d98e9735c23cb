package server

import (
	"cmp"
	"context"
	"encoding/json"
	"testing"

	"github.com/mcp-metarouter/metarouter/selector"
)

// A call of call_tool in a form that its schema does not have is refused, with the schema, unless its arguments are a string of JSON.
func TestCallForms(t *testing.T) {
	r := newFake(tool("s", "echo"))
	var got *selector.Call
	r.execute = func(_ context.Context, c selector.Call) (selector.Result, error) {
		got = &c
		return selector.Result{JSON: json.RawMessage(`{"content":[]}`)}, nil
	}
	s := newAlone(r, Options{})
	for args, want := range map[string]string{
		`{"tool":"s:echo","arguments":{"n":7}}`:      `{"n":7}`,
		`{"tool":"s:echo","arguments":"{\"n\":7}"}`:  `"{\"n\":7}"`, // which is repaired for the tool itself
		`{"tool":"s:echo","arguments":null}`:         `{}`,
		`{"tool":"s:echo"}`:                          `{}`,
		`"{\"tool\":\"s:echo\",\"arguments\":{}}"`:   `{}`,
		`{"tool":"s:echo","wait_for_previous":true}`: `{}`,
	} {
		got = nil
		result := calls[any](t, s, "call_tool", args)
		if result.IsError || got == nil || string(cmp.Or(string(got.Arguments), "{}")) != want {
			t.Errorf("%s executed %+v: %+v", args, got, result)
		}
	}
	got = nil
	for _, test := range [][2]string{
		{`{"tool":"s:echo","n":7}`, "'n' not allowed"},
		{`{"tool_name":"s:echo","parameters":{"n":7}}`, "missing property 'tool'"},
		{`{"tool":"s:echo","arguments":{"a":1},"n":7}`, "'n' not allowed"},
		{`{"parameters":{"tool":"s:echo"}}`, "missing property 'tool'"},
		{`{"tool":"s:echo","arguments":{},"allow_destructive":true}`, "allow_destructive"},
		{`{"tool":"s:nope"}`, "unknown tool"},
	} {
		fails(t, s, "call_tool", test[0], test[1])
	}
	fails(t, s, "call_read_only_tool", `{"tool":"s:echo"}`, "does not declare that it only reads")
	fails(t, s, "route_task", `{"task":"wipe it","allow_destructive":"true"}`, "arguments.allow_destructive")
	fails(t, s, "route_task", `{"input":{"task":"wipe it","run_anyway":true}}`, "task")
	if got != nil {
		t.Errorf("executed %+v", got)
	}
}
