package tools

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/mcp-metarouter/metarouter/internal/approval"
	"github.com/mcp-metarouter/metarouter/internal/prose"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector"
)

// Models write calls of call_tool in other forms than its schema has: the tool under another name,
// its arguments under another name, as a string of JSON, or next to the tool. An argument that the tool's schema
// declares is the tool's, nothing is dropped, and a call that can be meant in two ways is refused.

// toolKeys are the members that may name the tool, containers those that may hold its arguments.
var (
	toolKeys   = []string{"tool", "tool_name", "name", "id"}
	containers = []string{"arguments", "parameters", "args", "params", "input"}
)

// A callForm is how a client has written a call of call_tool.
type callForm struct {
	key  string          // the member that names the tool; may be ""
	tool json.RawMessage // its value
	rest json.RawMessage // the other members, as an object
}

// isPlain reports whether arguments of call_tool are as its schema asks.
func isPlain(args json.RawMessage) bool {
	plain := true
	err := wire.Members(args, func(key string, value []byte) bool {
		plain = key == "tool" && value[0] == '"' || key == "arguments" && wire.IsObject(value)
		return plain
	})
	return err == nil && plain
}

// formOf reads the arguments of call_tool. It finds them also in a string of JSON, and one level too
// deep.
func formOf(args json.RawMessage, knows func(name json.RawMessage) bool) callForm {
	if inner := object(args); inner != nil {
		args = inner
	}
	form := formIn(args, knows)
	if form.key != "" {
		return form
	}
	if key, inner := only(args); slices.Contains(containers, key) {
		if deep := formIn(object(inner), knows); deep.key != "" && knows(deep.tool) {
			return deep
		}
	}
	return callForm{rest: args}
}

// formIn is formOf at one level. Of several members that may name the tool, the first one that
// names a known tool does.
func formIn(args json.RawMessage, knows func(name json.RawMessage) bool) (form callForm) {
	for _, key := range toolKeys {
		value := wire.Member(args, key)
		if _, ok := wire.String(value); ok && (form.key == "" || !knows(form.tool) && knows(value)) {
			form = callForm{key, value, nil}
		}
	}
	form.rest = wire.DeleteMember(args, form.key)
	return form
}

// knows reports whether a JSON string is the name of a tool that is listed.
func (t *Tools) knows(name json.RawMessage) bool {
	text, ok := wire.String(name)
	if ok {
		_, ok = t.Catalog.Listed(text)
	}
	return ok
}

// asDocumented reports whether the call is written as the schema of call_tool asks, or with the
// arguments of the tool as a string.
func (form callForm) asDocumented() bool {
	if form.key != "tool" {
		return form.key == ""
	}
	key, value := only(form.rest)
	return key == "arguments" && (object(value) != nil || string(value) == "null") || wire.Member(form.rest, "arguments") == nil && isEmpty(form.rest)
}

// arguments returns the arguments for the tool, which check compares with its schema, and how they were written, or the
// fault in the form of [selector.Checked].
func (form callForm) arguments(called string, tool *registry.NormalizedTool, check func(args json.RawMessage) selector.Checked) (args json.RawMessage, how, fault string) {
	rest := form.rest
	declares := func(key string) bool { return wire.Member(wire.Member(tool.InputSchema, "properties"), key) != nil }
	for _, key := range toolKeys {
		value := wire.Member(rest, key)
		if _, ok := wire.String(value); !ok || declares(key) {
			continue
		}
		if !sameValue(value, form.tool) {
			return nil, "", fmt.Sprintf("arguments.%s: differs from %q; write one of them", key, form.key)
		}
		rest = wire.DeleteMember(rest, key)
	}
	if value := wire.Member(rest, "arguments"); string(value) == "null" && !declares("arguments") {
		rest = wire.DeleteMember(rest, "arguments")
	}
	if form.key != "tool" {
		how = fmt.Sprintf("the tool was named by %q", form.key)
	}
	if less := json.RawMessage(wire.DeleteMember(rest, session.GeminiArgument)); len(less) < len(rest) && !declares(session.GeminiArgument) {
		rest, how = less, prose.Clauses(how, fmt.Sprintf("the argument %q was left out", session.GeminiArgument))
	}
	form.rest = rest
	form.key = "tool"
	switch {
	case isEmpty(rest):
		return json.RawMessage("{}"), how, ""
	case form.asDocumented():
		return wire.Member(rest, "arguments"), how, ""
	}
	c := candidates{called: called, tool: tool, rest: rest, declares: declares}
	if fault = c.collect(); fault != "" {
		return nil, "", fault
	}
	fits := func(args json.RawMessage) (fits, repaired bool) {
		checked := check(args)
		return len(checked.Faults) == 0, checked.Repaired != ""
	}
	if fault = c.choose(fits); fault != "" {
		return nil, "", fault
	}
	return c.all[0].args, prose.Clauses(how, c.all[0].how), ""
}

// candidates are the arguments that a call may mean.
type candidates struct {
	called   string // our own tool
	tool     *registry.NormalizedTool
	rest     json.RawMessage
	declares func(key string) bool
	all      []candidate
}

type candidate struct {
	args json.RawMessage
	in   string // the container, which may be ""
	how  string
}

// collect finds the candidates, or says why there is no candidate.
func (c *candidates) collect() (fault string) {
	flat := true
	for _, key := range containers {
		value := wire.Member(c.rest, key)
		if value == nil {
			continue
		}
		flat = flat && c.declares(key)
		inner := object(value)
		if inner == nil {
			if !c.declares(key) {
				fault = cmp.Or(fault, fmt.Sprintf("arguments.%s: expected an object", key))
			}
			continue
		}
		if args, wrong := c.join(key, inner); wrong == "" {
			c.all = append(c.all, candidate{args, key, fmt.Sprintf("the arguments stood in %q", key)})
		} else {
			fault = cmp.Or(fault, wrong)
		}
	}
	if key := c.agreement(c.rest); flat && key == "" {
		c.all = append(c.all, candidate{c.rest, "", "the arguments stood next to the tool's name"})
	} else if key != "" {
		fault = cmp.Or(fault, c.misplaced(key))
	}
	if len(c.all) > 0 {
		return ""
	}
	return fault
}

// join adds to the arguments in a container those next to it, which the tool must declare.
func (c *candidates) join(key string, inner json.RawMessage) (args json.RawMessage, fault string) {
	args = inner
	n := 0
	_ = wire.Members(wire.DeleteMember(c.rest, key), func(other string, value []byte) bool { // it is a valid object
		switch n++; {
		case n > maxJoined, !c.declares(other), slices.Contains(approval.Agreements, other):
			fault = c.misplaced(other)
		case wire.Member(inner, other) != nil:
			fault = fmt.Sprintf("arguments.%s: it is in %q, too; write one of them", other, key)
		default:
			args = wire.AddMember(args, other, value)
		}
		return fault == ""
	})
	return args, fault
}

// agreement returns which word of agreement is in the object.
func (c *candidates) agreement(object json.RawMessage) string {
	for _, key := range approval.Agreements {
		if wire.Member(object, key) != nil {
			return key
		}
	}
	return ""
}

// maxJoined is how many members next to a container are added to those in it.
const maxJoined = 50

func (c *candidates) misplaced(key string) string {
	return fmt.Sprintf(`arguments.%s: %s has no such argument; write {"tool": %q, "arguments": {…}}`, key, c.called, c.tool.ID)
}

// choose leaves one candidate. Of several it is the one that fits the tool, best without a repair,
// and of several that fit the one without a container, which the tool declares.
func (c *candidates) choose(fits func(json.RawMessage) (fits, repaired bool)) (fault string) {
	if len(c.all) == 1 {
		return ""
	}
	var fitting, repairable []candidate
	for _, one := range c.all {
		switch fits, repaired := fits(one.args); {
		case fits && repaired:
			repairable = append(repairable, one)
		case fits:
			fitting = append(fitting, one)
		}
	}
	if fitting == nil {
		fitting = repairable
	}
	if len(fitting) > 1 && !slices.ContainsFunc(fitting, func(one candidate) bool { return one.in == "arguments" }) {
		fitting = slices.DeleteFunc(fitting, func(one candidate) bool { return one.in != "" })
	}
	if len(fitting) != 1 {
		return fmt.Sprintf(`arguments: it is not clear which of them are for the tool; write {"tool": %q, "arguments": {…}}`, c.tool.ID)
	}
	c.all = fitting
	return ""
}

// object returns the object that the JSON value is or holds as a string, or nil.
func object(value json.RawMessage) json.RawMessage {
	if text, ok := wire.String(value); ok {
		value = json.RawMessage(strings.TrimSpace(text))
	}
	if wire.IsObject(value) && wire.Valid(value) {
		return value
	}
	return nil
}

// only returns the member of an object that has one, a key "" if it has several.
func only(object json.RawMessage) (key string, value json.RawMessage) {
	n := 0
	_ = wire.Members(object, func(k string, v []byte) bool { // each object is valid
		key, value = k, v
		n++
		return n < 2
	})
	if n != 1 {
		return "", nil
	}
	return key, value
}

func isEmpty(object json.RawMessage) bool {
	empty := true
	_ = wire.Members(object, func(string, []byte) bool { // an object of a call
		empty = false
		return false
	})
	return empty
}

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
