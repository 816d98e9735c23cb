package tools

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/mcp-metarouter/metarouter/internal/wire"
)

// aliases returns the names that models write instead of an argument of one of our own
// tools. The tool's schema documents the argument alone.
func aliases(tool string) (argument string, others []string) {
	switch tool {
	case "call_tool", "call_read_only_tool":
		return "tool", []string{"name"}
	case "describe_tools":
		return "ids", []string{"names", "name"}
	case "find_tools":
		return "query", []string{"task"}
	case "route_task":
		return "task", []string{"query"}
	}
	return "", nil
}

// unalias gives an argument that a model has written under another name its own name. If
// both are there and differ, fault says so in the form of [selector.Checked].
func unalias(tool string, args json.RawMessage) (renamed json.RawMessage, fault string) {
	argument, others := aliases(tool)
	for _, other := range others {
		value := wire.Member(args, other)
		if value == nil {
			continue
		}
		if argument == "ids" && !wire.IsArray(value) {
			value = wire.Marshal([]json.RawMessage{value})
		}
		if meant := wire.Member(args, argument); meant != nil && !sameValue(meant, value) {
			return args, fmt.Sprintf("arguments.%s: differs from %q; write one of them", other, argument)
		}
		args = wire.SetMember(wire.DeleteMember(args, other), argument, value)
	}
	return args, ""
}

// sameValue reports whether two JSON values are the same but for white space.
func sameValue(a, b []byte) bool {
	var x, y bytes.Buffer
	return json.Compact(&x, a) == nil && json.Compact(&y, b) == nil && bytes.Equal(x.Bytes(), y.Bytes())
}
