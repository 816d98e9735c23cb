package tools

import (
	"encoding/json"
	"testing"
)

func TestUnalias(t *testing.T) {
	for _, test := range []struct{ tool, args, want, fault string }{
		{"describe_tools", `{"names":["a:b"]}`, `{"ids":["a:b"]}`, ""},
		{"describe_tools", `{"name":"a:b"}`, `{"ids":["a:b"]}`, ""},
		{"describe_tools", `{"tools":["a:b","c"]}`, `{"ids":["a:b","c"]}`, ""},
		{"describe_tools", `{"ids":"a:b"}`, `{"ids":["a:b"]}`, ""},
		{"describe_tools", `{"tools":"[\"a:b\"]"}`, `{"ids":["a:b"]}`, ""},
		{"describe_tools", `{"tools":[{}]}`, `{"ids":[{}]}`, ""},
		{"describe_tools", `{"ids":["a:b"],"names":[ "a:b" ]}`, `{"ids":[ "a:b" ]}`, ""},
		{"describe_tools", `{"names":["a:b"],"name":"a:c"}`, "", `arguments.name: differs from "ids"; write one of them`},
		{"find_tools", `{"task":"x"}`, `{"query":"x"}`, ""},
		{"route_task", `{"query":"x","arguments":{}}`, `{"arguments":{},"task":"x"}`, ""},
		{"read_result", `{"name":"x"}`, `{"name":"x"}`, ""},
		{"call_tool", `[]`, `[]`, ""},
	} {
		got, fault, _ := unalias(test.tool, json.RawMessage(test.args))
		if fault != test.fault || fault == "" && string(got) != test.want {
			t.Errorf("%s %s: %s, %q", test.tool, test.args, got, fault)
		}
	}
}
