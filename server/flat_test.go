package server

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector"
)

// schemed returns a tool of server s with properties, and more of a schema.
func schemed(name, properties, more string) registry.NormalizedTool {
	t := tool("s", name)
	t.InputSchema = json.RawMessage(`{"type":"object","properties":{` + properties + `}` + more + `}`)
	return t
}

// Calls of call_tool in forms that its schema does not have.
func TestCallForms(t *testing.T) {
	const closed = `,"additionalProperties":false`
	r := newFake(
		tool("s", "echo"), tool("s", "open"),
		schemed("user", `"name":{"type":"string"},"id":{"type":"string"}`, closed),
		schemed("run", `"command":{"type":"string"},"arguments":{"type":"array"},"args":{"type":"object"}`, `,"required":["command"]`+closed),
		schemed("wrap", `"input":{"type":"object"}`, `,"required":["input"]`+closed),
		schemed("either", `"input":{"type":"object"},"a":{"type":"integer"}`, ``),
		schemed("env", `"command":{"type":"string"},"arguments":{"type":"object"},"a":{"type":"integer"}`, ``),
		schemed("wipe", `"allow_destructive":{"type":"boolean"},"n":{"type":"integer"}`, ``),
	)
	var got *selector.Call
	r.execute = func(_ context.Context, c selector.Call) (selector.Result, error) {
		got = &c
		return selector.Result{JSON: json.RawMessage(`{"content":[]}`)}, nil
	}
	s := newAlone(r, Options{})
	for _, test := range []struct{ args, tool, arguments, repaired string }{
		{`{"tool":"s:echo","n":7}`, "s:echo", `{"n":7}`, "the arguments stood next to the tool's name"},
		{`{"tool_name":"s:echo","parameters":{"n":7}}`, "s:echo", `{"n":7}`, `the tool was named by "tool_name"; the arguments stood in "parameters"`},
		{`{"id":"s:echo","args":"{\"n\":7}"}`, "s:echo", `{"n":7}`, `the tool was named by "id"; the arguments stood in "args"`},
		{`{"name":"s:echo","input":{"n":7}}`, "s:echo", `{"n":7}`, `the tool was named by "name"; the arguments stood in "input"`},
		{`{"name":"s:echo","params":{}}`, "s:echo", `{}`, `the tool was named by "name"; the arguments stood in "params"`},
		{`{"tool":"s:echo","arguments":{"a":1},"n":7}`, "s:echo", `{"a":1,"n":7}`, `the arguments stood in "arguments"`},
		{`{"tool":"s:echo","arguments":null,"n":7}`, "s:echo", `{"n":7}`, "the arguments stood next to the tool's name"},
		{`"{\"tool\":\"s:echo\",\"n\":7}"`, "s:echo", `{"n":7}`, "the arguments stood next to the tool's name"},
		{`{"parameters":{"tool":"s:echo","n":7}}`, "s:echo", `{"n":7}`, "the arguments stood next to the tool's name"},
		{`{"tool":"s:echo","name":"s:echo","n":1}`, "s:echo", `{"n":1}`, "the arguments stood next to the tool's name"},
		{`{"tool":"s:echo","arguments":{"n":7},"wait_for_previous":true}`, "s:echo", `{"n":7}`, `the argument "wait_for_previous" was left out`},
		{`{"tool":"s:echo","n":7,"wait_for_previous":true}`, "s:echo", `{"n":7}`, `the argument "wait_for_previous" was left out; the arguments stood next to the tool's name`},

		// What the tool declares is the tool's.
		{`{"tool":"s:user","name":"Bob","id":"7"}`, "s:user", `{"name":"Bob","id":"7"}`, "the arguments stood next to the tool's name"},
		{`{"tool":"s:user","name":"s:user"}`, "s:user", `{"name":"s:user"}`, "the arguments stood next to the tool's name"},
		{`{"name":"Bob","id":"s:user"}`, "s:user", `{"name":"Bob"}`, `the tool was named by "id"; the arguments stood next to the tool's name`},
		{`{"tool":"s:run","command":"ls","arguments":["-l"]}`, "s:run", `{"command":"ls","arguments":["-l"]}`, "the arguments stood next to the tool's name"},
		{`{"tool":"s:run","args":{"command":"ls"}}`, "s:run", `{"command":"ls"}`, `the arguments stood in "args"`},
		{`{"tool":"s:wrap","input":{"a":1}}`, "s:wrap", `{"input":{"a":1}}`, "the arguments stood next to the tool's name"},
		{`{"tool":"s:either","input":{"a":1}}`, "s:either", `{"input":{"a":1}}`, "the arguments stood next to the tool's name"},
		{`{"tool":"s:wipe","arguments":{"allow_destructive":true}}`, "s:wipe", `{"allow_destructive":true}`, ""},
	} {
		got = nil
		result := calls[any](t, s, "call_tool", test.args)
		if result.IsError || got == nil || got.Tool.ID != test.tool || string(got.Arguments) != test.arguments || got.Repaired != test.repaired {
			t.Errorf("%s executed %+v: %+v", test.args, got, result)
		}
	}
	got = nil
	for _, test := range [][2]string{
		{`{"tool":"s:echo","arguments":{"a":1},"reason":"why"}`, `arguments.reason: call_tool has no such argument; write {"tool": "s:echo", "arguments": {…}}`},
		{`{"tool":"s:echo","arguments":{"n":1},"n":2}`, `it is in "arguments", too`},
		{`{"tool":"s:echo","name":"s:open","n":1}`, `arguments.name: differs from "tool"`},
		{`{"tool":"s:env","command":"x","arguments":{"a":1}}`, "it is not clear which of them are for the tool"},
		{`{"tool":"s:echo","parameters":"text"}`, "arguments.parameters: expected an object"},
		{`{"tool":"s:wipe","n":1,"allow_destructive":true}`, "arguments.allow_destructive"},
		{`{"tool":"s:wipe","arguments":{"n":1},"allow_destructive":true}`, "arguments.allow_destructive"},
		{`{"tool":"s:nope","n":1}`, "unknown tool"},
	} {
		fails(t, s, "call_tool", test[0], test[1])
	}
	fails(t, s, "call_read_only_tool", `{"tool":"s:echo","n":1}`, "does not declare that it only reads")
	fails(t, s, "route_task", `{"task":"wipe it","allow_destructive":"true"}`, "arguments.allow_destructive")
	fails(t, s, "route_task", `{"input":{"task":"wipe it","run_anyway":true}}`, "task")
	if got != nil {
		t.Errorf("executed %+v", got)
	}
}
