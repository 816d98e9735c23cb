package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/internal/plain"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector"
)

func newCallCommand(env *environment) *cobra.Command {
	var raw string
	cmd := newCommand("call TOOL [KEY=VALUE …]", "Run one tool",
		`  metarouter call utilities:unit_convert value=5 from_unit=km to_unit=mi
  metarouter call playwright:browser_navigate --args '{"url":"https://example.com"}'`,
		arguments(1, -1, "name the tool; 'metarouter tools' lists all"), func(ctx context.Context, args []string) error {
			return runCall(ctx, env, args[0], raw, args[1:])
		})
	cmd.Long = `Runs one tool and prints its result.

TOOL is server:tool, server__tool, server.tool, or the tool's own name if only one
server has it. KEY=VALUE is an argument of the tool: VALUE is JSON, or plain text,
which needs no quotes. Pairs are added to the object of --args; where both have a key,
the pair is used.`
	addJSONFlag(env, cmd)
	addArgsFlag(cmd, &raw)
	return cmd
}

// addArgsFlag gives cmd the flag --args.
func addArgsFlag(cmd *cobra.Command, raw *string) {
	cmd.Flags().StringVar(raw, "args", "", "Pass these arguments to the tool: a `JSON` object, @FILE to read the object from a file, or - to read it from stdin. (default {})")
}

// runCall runs the tool with the arguments of --args and, over them, the KEY=VALUE pairs.
func runCall(ctx context.Context, env *environment, tool, raw string, pairs []string) error {
	c, err := loadConfig(ctx, env)
	if err != nil {
		return err
	}
	object, err := readArguments(env, raw)
	if err != nil {
		return err
	}
	return withRouterForCalls(ctx, env, c, func(ctx context.Context, r *adapter.Parts) error {
		t, err := resolveTool(ctx, env, c, r, tool)
		if err != nil {
			return err
		}
		arguments, err := mergeArguments(t, object, pairs)
		if err != nil {
			return usage(err)
		}
		result, err := r.Execute(ctx, selector.Call{Tool: t, Arguments: arguments, Client: "metarouter call"})
		if err != nil {
			return fmt.Errorf("call %s: %w", t.ID, oneLine{err})
		}
		switch {
		case env.json:
			err = env.printJSON(result.JSON)
		case len(result.Mismatch) > 0:
			return &exitError{exitFailed, fmt.Errorf("the arguments do not fit %s; nothing was called:\n  %s\nFor example:\n  %s",
				t.ID, strings.Join(result.Mismatch, "\n  "), sampleCall(t, nil))}
		default:
			err = printResult(env, result.JSON)
		}
		if err == nil && result.IsError {
			err = &exitError{code: exitFailed}
		}
		return err
	})
}

// oneLine is an error whose text a server may have written: it adds no line of its own.
type oneLine struct{ error }

func (e oneLine) Error() string { return plain.Line(e.error.Error()) }
func (e oneLine) Unwrap() error { return e.error }

// readArguments returns the JSON object that --args gives, names (@FILE) or has read
// from stdin (-).
func readArguments(env *environment, raw string) (json.RawMessage, error) {
	var text []byte
	var err error
	switch {
	case env.running != nil:
		return json.RawMessage(env.input), nil
	case raw == "":
		text = []byte("{}")
	case raw == "-":
		text, err = io.ReadAll(env.stdin)
	case raw[0] == '@':
		text, err = os.ReadFile(raw[1:])
	default:
		text = []byte(raw)
	}
	if err != nil {
		return nil, usage(inFlag("--args", err))
	}
	if !wire.Valid(text) || !wire.IsObject(text) {
		return nil, usage(errors.New(`--args is not a JSON object; write for example --args '{"key": "value"}'`))
	}
	env.input = string(text)
	return text, nil
}

// mergeArguments sets the KEY=VALUE pairs in the object. A value is a string where the
// tool's schema says so, else JSON if it is valid JSON.
func mergeArguments(t *registry.NormalizedTool, object json.RawMessage, pairs []string) (json.RawMessage, error) {
	properties := wire.Member(t.InputSchema, "properties")
	for _, pair := range pairs {
		key, value, ok := strings.Cut(pair, "=")
		if !ok {
			return nil, fmt.Errorf("argument %q has no '='; write key=value", pair)
		}
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

// printResult prints the text of a CallToolResult, and a line for each part of it that
// is not text. The text is cleaned for a terminal; otherwise it is what the server wrote.
func printResult(env *environment, raw json.RawMessage) error {
	var result struct {
		Content []struct {
			Type, Text, Data, MimeType, URI string
			Resource                        struct{ URI, Text string }
		}
		StructuredContent json.RawMessage
	}
	if err := json.Unmarshal(raw, &result); err != nil {
		return env.printJSON(raw) // not a CallToolResult
	}
	for _, c := range result.Content {
		switch c.Type {
		case "text":
			fmt.Fprintln(env.results(), c.Text)
		case "image", "audio":
			env.say("[%s %s, %d bytes; --json prints it]", c.Type, c.MimeType, base64.StdEncoding.DecodedLen(len(c.Data)))
		case "resource":
			env.say("[resource %s]", c.Resource.URI)
			fmt.Fprintln(env.results(), c.Resource.Text)
		case "resource_link":
			env.say("[resource %s]", c.URI)
		default:
			env.say("[%s; --json prints it]", c.Type)
		}
	}
	if len(result.Content) == 0 && result.StructuredContent != nil {
		return env.printJSON(result.StructuredContent)
	}
	return nil
}
