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
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/configfile"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/exit"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/toolargs"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/plain"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector"
)

func newCallCommand(env *environment) *cobra.Command {
	var raw string
	var yes bool
	cmd := newCommand("call TOOL [KEY=VALUE …]", "Run one tool",
		`  metarouter call utilities:unit_convert value=5 from_unit=km to_unit=mi
  metarouter call playwright:browser_navigate --args '{"url":"https://example.com"}'`,
		arguments(1, -1, "name the tool; 'metarouter tools' lists all"), func(ctx context.Context, args []string) error {
			return runCall(ctx, env, args[0], raw, args[1:], yes)
		})
	cmd.Long = `Runs one tool and prints its result.

TOOL is server:tool, server__tool, server.tool, or the tool's own name if only one
server has it. KEY=VALUE is an argument of the tool: VALUE is JSON, or plain text,
which needs no quotes. Pairs are added to the object of --args; where both have a key,
the pair is used.`
	addJSONFlag(cmd, env.Console)
	addProfileFlag(env, cmd)
	addArgsFlag(cmd, &raw)
	cmd.Flags().BoolVar(&yes, "yes", false, "Agree to the call where a profile asks first. By default you are asked on the terminal; without a terminal the tool is not run.")
	return cmd
}

// addArgsFlag gives cmd the flag --args.
func addArgsFlag(cmd *cobra.Command, raw *string) {
	cmd.Flags().StringVar(raw, "args", "", "Pass these arguments to the tool: a `JSON` object, @FILE to read the object from a file, or - to read it from stdin. (default {})")
}

// runCall runs the tool with the arguments of --args and, over them, the KEY=VALUE pairs.
func runCall(ctx context.Context, env *environment, tool, raw string, pairs []string, yes bool) error {
	object, err := readArguments(env, raw)
	if err != nil {
		return err
	}
	c, done, err := loadOrAsk(ctx, env, false)
	if err != nil || done {
		return err
	}
	return withScope(ctx, env, c, withRouterForCalls, func(ctx context.Context, r *adapter.Scope, c config.Config) error {
		t, err := resolveTool(ctx, env, c, r, tool)
		if err != nil {
			return err
		}
		arguments, err := toolargs.Merge(t.InputSchema, object, pairs)
		if err != nil {
			return exit.Usage(err)
		}
		client := &lonelyClient{person: personFor(env, yes)}
		result, err := r.Execute(ctx, selector.Call{Tool: t, Arguments: arguments, Client: "metarouter call", From: client})
		defer client.explain(env, t.ID, t.Server, result.JSON, err)
		if err != nil {
			return fmt.Errorf("call %s: %w", t.ID, oneLine{err})
		}
		switch {
		case env.JSON:
			err = env.PrintJSON(result.JSON)
		case notApproved(result.Err) != nil:
			return notApproved(result.Err)
		case len(result.Mismatch) > 0:
			return &exit.Error{Code: exit.Failed, Err: mismatchError(ctx, r, t, arguments, result.Mismatch)}
		default:
			err = printResult(env, result.JSON)
		}
		if err == nil && result.IsError {
			noteSample(env, t, arguments)
			err = &exit.Error{Code: exit.Failed}
		}
		return err
	})
}

// mismatchError says why the arguments do not fit the tool, and shows a call that fits.
func mismatchError(ctx context.Context, r selector.Provider, t *registry.NormalizedTool, arguments json.RawMessage, faults []string) error {
	return fmt.Errorf("the arguments do not fit %s; nothing was called:\n  %s\nFor example:\n  %s",
		t.ID, strings.Join(faults, "\n  "), toolargs.Sample(t, toolargs.Fitting(ctx, r, t, arguments)))
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
		text, err = io.ReadAll(env.In)
	case raw[0] == '@':
		text, err = os.ReadFile(raw[1:])
	default:
		text = []byte(raw)
	}
	if err != nil {
		return nil, exit.Usage(configfile.InFlag("--args", err))
	}
	if !wire.Valid(text) || !wire.IsObject(text) {
		return nil, exit.Usage(notObject(text))
	}
	env.input = string(text)
	return text, nil
}

// notObject says why the text of --args is not a JSON object, and where.
func notObject(text []byte) error {
	const advice = `write for example --args '{"key": "value"}'`
	var object map[string]json.RawMessage
	err, ok := errors.AsType[*json.SyntaxError](json.Unmarshal(text, &object))
	if !ok || !strings.HasPrefix(strings.TrimSpace(string(text)), "{") {
		return errors.New("--args is not a JSON object; " + advice)
	}
	return fmt.Errorf("--args is not a JSON object: character %d: %s; keys and texts need double quotes; %s",
		utf8.RuneCount(text[:min(int(err.Offset), len(text))]), err, advice)
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
		return env.PrintJSON(raw) // not a CallToolResult
	}
	for _, c := range result.Content {
		switch c.Type {
		case "text":
			fmt.Fprintln(env.Results(), c.Text)
		case "image", "audio":
			env.Say("[%s %s, %d bytes; --json prints it]", c.Type, c.MimeType, base64.StdEncoding.DecodedLen(len(c.Data)))
		case "resource":
			env.Say("[resource %s]", c.Resource.URI)
			fmt.Fprintln(env.Results(), c.Resource.Text)
		case "resource_link":
			env.Say("[resource %s]", c.URI)
		default:
			env.Say("[%s; --json prints it]", c.Type)
		}
	}
	if len(result.Content) == 0 && result.StructuredContent != nil {
		return env.PrintJSON(result.StructuredContent)
	}
	return nil
}

// noteSample notes a call with an argument, after a call without any failed.
func noteSample(env *environment, t *registry.NormalizedTool, args json.RawMessage) {
	if env.JSON || !toolargs.Same(args, json.RawMessage("{}")) {
		return
	}
	if sample := toolargs.SampleWithOptional(t); sample != "" {
		env.Note("no arguments were given; for example:")
		env.Note("  %s", sample)
	}
}
