package admin

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/mcp-metarouter/metarouter/internal/commandline"
	"github.com/mcp-metarouter/metarouter/internal/schema"
	"github.com/mcp-metarouter/metarouter/internal/wire"
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

// Sample returns a command that calls the tool of the ID with args, completed by values such as
// its schema for the input asks for. A shell can run it as it is.
func Sample(id string, input, args json.RawMessage) string {
	args = schema.ExampleArguments(input, args)
	command := []string{"metarouter", "call", commandline.Quote(id)}
	var pairs []string
	for key, value := range wire.All(args) {
		text, ok := wire.String(value)
		if !ok {
			text = string(value)
		}
		pairs = append(pairs, key+"="+text)
	}
	if again, err := Merge(input, json.RawMessage("{}"), pairs); err == nil && same(again, args) {
		for _, pair := range pairs {
			command = append(command, commandline.Quote(pair))
		}
	} else { // a pair would be read as another value, such as the text "5" as a number
		command = append(command, "--args", commandline.Quote(string(args)))
	}
	return strings.Join(command, " ")
}

func same(a, b json.RawMessage) bool {
	var x, y bytes.Buffer
	return json.Compact(&x, a) == nil && json.Compact(&y, b) == nil && bytes.Equal(x.Bytes(), y.Bytes())
}
