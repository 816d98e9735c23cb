package main

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/mcp-metarouter/metarouter/internal/example"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/registry"
)

// sampleCall returns a command that calls the tool with args, completed by values such as
// the tool's schema asks for. A shell can run it as it is.
func sampleCall(t *registry.NormalizedTool, args json.RawMessage) string {
	args = example.Arguments(t.InputSchema, args)
	command := []string{"metarouter", "call", shellWord(t.ID)}
	var pairs []string
	_ = wire.Members(args, func(key string, value []byte) bool {
		text, ok := wire.String(value)
		if !ok {
			text = string(value)
		}
		pairs = append(pairs, key+"="+text)
		return true
	})
	if again, err := mergeArguments(t, json.RawMessage("{}"), pairs); err == nil && sameArguments(again, args) {
		for _, pair := range pairs {
			command = append(command, shellWord(pair))
		}
	} else { // a pair would be read as another value, such as the text "5" as a number
		command = append(command, "--args", shellWord(string(args)))
	}
	return strings.Join(command, " ")
}

func sameArguments(a, b json.RawMessage) bool {
	var x, y bytes.Buffer
	return json.Compact(&x, a) == nil && json.Compact(&y, b) == nil && bytes.Equal(x.Bytes(), y.Bytes())
}

// shellWord returns the text as one word of a shell, in quotes where it needs them.
func shellWord(text string) string {
	const safe = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:@%+=,"
	if text != "" && strings.Trim(text, safe) == "" {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
