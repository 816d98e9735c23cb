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
	case "describe_tools":
		return "ids", []string{"ids", "names", "tools", "name", "tool", "tool_name", "id"}
	case "find_tools":
		return "query", []string{"task"}
	case "route_task":
		return "task", []string{"query"}
	}
	return "", nil
}

// unalias gives an argument that a model has written under another name its own name, and says
// how it was written. If both are there and differ, fault says so in the form of
// [selector.Checked].
func unalias(tool string, args json.RawMessage) (renamed json.RawMessage, fault, how string) {
	argument, others := aliases(tool)
	for _, other := range others {
		value := wire.Member(args, other)
		if value == nil {
			continue
		}
		if argument == "ids" {
			value = listed(value)
		}
		if other == argument {
			args = wire.SetMember(args, argument, value)
			continue
		}
		if meant := wire.Member(args, argument); meant != nil && !sameValue(meant, value) {
			return args, fmt.Sprintf("arguments.%s: differs from %q; write one of them", other, argument), ""
		}
		args = wire.SetMember(wire.DeleteMember(args, other), argument, value)
		how = fmt.Sprintf("%q was called %q", argument, other)
	}
	return args, "", how
}

// listed returns the list that a JSON value is, or holds as a string; one of a single string; and any other value as it is.
func listed(value json.RawMessage) json.RawMessage {
	text, ok := wire.String(value)
	switch inner := json.RawMessage(text); {
	case !ok:
		return value
	case wire.IsArray(inner) && wire.Valid(inner):
		return inner
	}
	return wire.Marshal([]json.RawMessage{value})
}

// sameValue reports whether two JSON values are the same but for white space.
func sameValue(a, b []byte) bool {
	var x, y bytes.Buffer
	return json.Compact(&x, a) == nil && json.Compact(&y, b) == nil && bytes.Equal(x.Bytes(), y.Bytes())
}
