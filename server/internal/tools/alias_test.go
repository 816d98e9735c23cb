package tools

import (
	"encoding/json"
	"testing"
)

func TestUnalias(t *testing.T) {
	for _, test := range []struct{ tool, args, want, fault string }{
		{"call_tool", `{"name":"a:b","arguments":{"name":"x"}}`, `{"arguments":{"name":"x"},"tool":"a:b"}`, ""},
		{"call_tool", `{"tool":"a:b"}`, `{"tool":"a:b"}`, ""},
		{"call_tool", `{"tool":"a:b","name":"a:b"}`, `{"tool":"a:b"}`, ""},
		{"call_tool", `{"tool":"a:b","name":"a:c"}`, "", `arguments.name: differs from "tool"; write one of them`},
		{"call_read_only_tool", `{"name":"a:b"}`, `{"tool":"a:b"}`, ""},
		{"describe_tools", `{"names":["a:b"]}`, `{"ids":["a:b"]}`, ""},
		{"describe_tools", `{"name":"a:b"}`, `{"ids":["a:b"]}`, ""},
		{"describe_tools", `{"ids":["a:b"],"names":[ "a:b" ]}`, `{"ids":[ "a:b" ]}`, ""},
		{"describe_tools", `{"names":["a:b"],"name":"a:c"}`, "", `arguments.name: differs from "ids"; write one of them`},
		{"find_tools", `{"task":"x"}`, `{"query":"x"}`, ""},
		{"route_task", `{"query":"x","arguments":{}}`, `{"arguments":{},"task":"x"}`, ""},
		{"read_result", `{"name":"x"}`, `{"name":"x"}`, ""},
		{"call_tool", `[]`, `[]`, ""},
	} {
		got, fault := unalias(test.tool, json.RawMessage(test.args))
		if fault != test.fault || fault == "" && string(got) != test.want {
			t.Errorf("%s %s: %s, %q", test.tool, test.args, got, fault)
		}
	}
}
