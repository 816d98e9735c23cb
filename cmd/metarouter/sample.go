package main

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"

	"github.com/mcp-metarouter/metarouter/internal/example"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector"
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
	if again, err := mergeArguments(t.InputSchema, json.RawMessage("{}"), pairs); err == nil && sameArguments(again, args) {
		for _, pair := range pairs {
			command = append(command, shellWord(pair))
		}
	} else { // a pair would be read as another value, such as the text "5" as a number
		command = append(command, "--args", shellWord(string(args)))
	}
	return strings.Join(command, " ")
}

// maxKept is how many arguments an example keeps.
const maxKept = 20

// fitting returns the arguments that fit the tool's schema, as far as the others are
// completed by [sampleCall]. An argument is kept unless it adds a fault.
func fitting(ctx context.Context, r selector.Provider, t *registry.NormalizedTool, args json.RawMessage) json.RawMessage {
	faults := func(args json.RawMessage) int {
		return len(r.Check(ctx, t, example.Arguments(t.InputSchema, args)).Faults)
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

// noteSample notes a call with an argument, after a call without any failed.
func noteSample(env *environment, t *registry.NormalizedTool, args json.RawMessage) {
	if env.JSON || !sameArguments(args, json.RawMessage("{}")) {
		return
	}
	if sample := sampleWithOptional(t); sample != "" {
		env.Note("no arguments were given; for example:")
		env.Note("  %s", sample)
	}
}

// sampleWithOptional is sampleCall with the first argument, preferably a text without a default,
// of a tool that requires none. It is "" if the tool has no arguments.
func sampleWithOptional(t *registry.NormalizedTool) string {
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
	schema := wire.SetMember(t.InputSchema, "required", wire.Marshal([]string{first}))
	return sampleCall(t, example.Arguments(schema, nil))
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
