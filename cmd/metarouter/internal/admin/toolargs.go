package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/mcp-metarouter/metarouter/internal/commandline"
	"github.com/mcp-metarouter/metarouter/internal/schema"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector"
)

// Merge sets the KEY=VALUE pairs in the object. A value is a string where the
// tool's schema says so, else JSON if it is valid JSON.
func Merge(schema, object json.RawMessage, pairs []string) (json.RawMessage, error) {
	if len(pairs) > 200 { // each reads the schema and the object again
		return nil, fmt.Errorf("%d KEY=VALUE pairs are too many; give at most 200, or all as JSON with --args", len(pairs))
	}
	properties := wire.Member(schema, "properties")
	given := make(map[string]bool)
	for _, pair := range pairs {
		key, value, ok := strings.Cut(pair, "=")
		if !ok {
			return nil, fmt.Errorf("argument %q has no '='; write key=value", pair)
		}
		if given[key] {
			return nil, fmt.Errorf("argument %q is given twice; write it once", key)
		}
		given[key] = true
		encoded := []byte(value)
		kinds := string(wire.Member(wire.Member(properties, key), "type")) // a string, or an array of strings
		text := strings.Contains(kinds, `"string"`) && !strings.Contains(kinds, `"number"`) && !strings.Contains(kinds, `"integer"`)
		if text || !wire.Valid(encoded) {
			encoded = wire.Marshal(value)
		}
		object = wire.SetMember(object, key, encoded)
	}
	return object, nil
}

// Sample returns a command that calls the tool with args, completed by values such as
// the tool's schema asks for. A shell can run it as it is.
func Sample(t *registry.NormalizedTool, args json.RawMessage) string {
	args = schema.ExampleArguments(t.InputSchema, args)
	command := []string{"metarouter", "call", commandline.Quote(t.ID)}
	var pairs []string
	_ = wire.Members(args, func(key string, value []byte) bool {
		text, ok := wire.String(value)
		if !ok {
			text = string(value)
		}
		pairs = append(pairs, key+"="+text)
		return true
	})
	if again, err := Merge(t.InputSchema, json.RawMessage("{}"), pairs); err == nil && Same(again, args) {
		for _, pair := range pairs {
			command = append(command, commandline.Quote(pair))
		}
	} else { // a pair would be read as another value, such as the text "5" as a number
		command = append(command, "--args", commandline.Quote(string(args)))
	}
	return strings.Join(command, " ")
}

// maxKept is how many arguments an example keeps.
const maxKept = 20

// Fitting returns the arguments that fit the tool's schema, as far as the others are
// completed by [Sample]. An argument is kept unless it adds a fault.
func Fitting(ctx context.Context, r selector.Provider, t *registry.NormalizedTool, args json.RawMessage) json.RawMessage {
	faults := func(args json.RawMessage) int {
		return len(r.Check(ctx, t, schema.ExampleArguments(t.InputSchema, args)).Faults)
	}
	kept := json.RawMessage("{}")
	least, n := faults(kept), 0
	_ = wire.Members(args, func(key string, value []byte) bool {
		with := json.RawMessage(wire.SetMember(kept, key, value))
		if now := faults(with); now <= least {
			kept, least = with, now
		}
		n++
		return n < maxKept
	})
	return kept
}

// SampleWithOptional is Sample with the first argument, preferably a text without a default,
// of a tool without required ones. It is "" if the tool has no arguments.
func SampleWithOptional(t *registry.NormalizedTool) string {
	first := ""
	_ = wire.Members(wire.Member(t.InputSchema, "properties"), func(name string, schema []byte) bool {
		kind, _ := wire.String(wire.Member(schema, "type"))
		text := kind == "string" && wire.Member(schema, "default") == nil
		if first == "" || text {
			first = name
		}
		return !text
	})
	if first == "" {
		return ""
	}
	return Sample(t, schema.ExampleArguments(wire.SetMember(t.InputSchema, "required", wire.Marshal([]string{first})), nil))
}

func Same(a, b json.RawMessage) bool {
	var x, y bytes.Buffer
	return json.Compact(&x, a) == nil && json.Compact(&y, b) == nil && bytes.Equal(x.Bytes(), y.Bytes())
}
