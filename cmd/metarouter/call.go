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
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector"
)

func (a *app) call() *cobra.Command {
	var raw string
	cmd := a.jsonFlag(leaf("call TOOL [KEY=VALUE …]", "Run one tool",
		`  metarouter call utilities:unit_convert value=5 from_unit=km to_unit=mi
  metarouter call playwright:browser_navigate --args '{"url":"https://example.com"}'`,
		cobra.MinimumNArgs(1), func(ctx context.Context, args []string) error {
			a.calls = true
			c, err := a.load(ctx)
			if err == nil {
				raw, err = a.readArguments(raw)
			}
			if err != nil {
				return err
			}
			return a.with(ctx, c, func(ctx context.Context, r *adapter.Router) error {
				t, err := a.resolve(ctx, c, r, args[0])
				if err != nil {
					return err
				}
				arguments, err := parseArguments(t, raw, args[1:])
				if err != nil {
					return usage(err)
				}
				result, err := r.Execute(ctx, selector.Call{Tool: t, Arguments: arguments, Client: "metarouter call"})
				if err != nil {
					return fmt.Errorf("call %s: %w", t.ID, err)
				}
				if a.json {
					err = a.printJSON(result.JSON)
				} else {
					err = a.printResult(result.JSON)
				}
				if err == nil && result.IsError {
					err = &exitError{code: exitFailed}
				}
				return err
			})
		}))
	cmd.Flags().StringVar(&raw, "args", "", argsUsage)
	return cmd
}

const argsUsage = "arguments as a `JSON` object; @FILE or - reads them"

// readArguments returns the arguments that --args gives, names (@FILE) or has
// read from stdin (-), an object in any case.
func (a *app) readArguments(raw string) (string, error) {
	var text []byte
	var err error
	switch {
	case a.router != nil:
		return a.input, nil
	case raw == "":
		text = []byte("{}")
	case raw == "-":
		text, err = io.ReadAll(a.stdin)
	case raw[0] == '@':
		text, err = os.ReadFile(raw[1:])
	default:
		text = []byte(raw)
	}
	if err != nil {
		return "", usage(fmt.Errorf("--args: %w", err))
	}
	if !wire.Valid(text) || !wire.IsObject(text) {
		return "", usage(errors.New(`--args is no JSON object; write for example --args '{"key": "value"}'`))
	}
	a.input = string(text)
	return a.input, nil
}

// parseArguments returns the arguments as an object: raw, and over it the pairs,
// whose values are strings where the schema says so, else JSON if they are.
func parseArguments(t *registry.NormalizedTool, raw string, pairs []string) (json.RawMessage, error) {
	object := json.RawMessage(raw)
	properties := wire.Member(t.InputSchema, "properties")
	for _, pair := range pairs {
		key, value, ok := strings.Cut(pair, "=")
		if !ok {
			return nil, fmt.Errorf("argument %q: write key=value", pair)
		}
		encoded := []byte(value)
		kinds := string(wire.Member(wire.Member(properties, key), "type")) // a string, or an array of them
		text := strings.Contains(kinds, `"string"`) && !strings.Contains(kinds, `"number"`) && !strings.Contains(kinds, `"integer"`)
		if text || !wire.Valid(encoded) {
			encoded = wire.Marshal(value)
		}
		object = wire.SetMember(object, key, encoded)
	}
	return object, nil
}

// printResult prints the text of a result, and a line for what is no text.
func (a *app) printResult(raw json.RawMessage) error {
	var result struct {
		Content []struct {
			Type, Text, Data, MimeType, URI string
			Resource                        struct{ URI, Text string }
		}
		StructuredContent json.RawMessage
	}
	if err := json.Unmarshal(raw, &result); err != nil {
		return a.printJSON(raw) // a shape that we do not know
	}
	for _, c := range result.Content {
		switch c.Type {
		case "text":
			fmt.Fprintln(a.stdout, c.Text)
		case "image", "audio":
			fmt.Fprintf(a.stdout, "[%s %s, %d bytes; --json prints it]\n", c.Type, c.MimeType, base64.StdEncoding.DecodedLen(len(c.Data)))
		case "resource":
			fmt.Fprintf(a.stdout, "[resource %s]\n%s\n", c.Resource.URI, c.Resource.Text)
		case "resource_link":
			fmt.Fprintf(a.stdout, "[resource %s]\n", c.URI)
		default:
			fmt.Fprintf(a.stdout, "[%s; --json prints it]\n", c.Type)
		}
	}
	if len(result.Content) == 0 && result.StructuredContent != nil {
		return a.printJSON(result.StructuredContent)
	}
	return nil
}
