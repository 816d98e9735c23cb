package cli

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/admin"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/configfile"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/console"
	"github.com/mcp-metarouter/metarouter/internal/lazy"
	"github.com/mcp-metarouter/metarouter/internal/script"
	"github.com/mcp-metarouter/metarouter/internal/wire"
)

// readJSON returns the JSON, an object for arguments, that a flag gives, names (@FILE) or, if stdin is not nil, has
// read from stdin (-); nil for "".
func readJSON(stdin io.Reader, flag, kind, raw string, most int64) (text json.RawMessage, err error) {
	if raw == "" {
		return nil, nil
	}
	text = json.RawMessage(raw)
	if file, named := strings.CutPrefix(raw, "@"); named || raw == "-" && stdin != nil {
		if text, err = readFile(stdin, flag, file, most); err != nil {
			return nil, console.Usage(err)
		}
	}
	if !wire.Valid(text) || kind != "JSON" && !wire.IsObject(text) {
		return nil, console.Usage(notJSON(flag, kind, text))
	}
	return text, nil
}

// notJSON says why the text of a flag is not JSON of a kind, and where.
func notJSON(flag, kind string, text []byte) error {
	advice := `write for example ` + flag + ` '{"key": "value"}'`
	if err, ok := errors.AsType[*json.SyntaxError](json.Unmarshal(text, new(any))); ok {
		return fmt.Errorf("%s is not %s: character %d: %s; keys and texts need double quotes; %s", flag, kind, utf8.RuneCount(text[:min(int(err.Offset), len(text))]), err, advice)
	}
	return fmt.Errorf("%s is not %s; %s", flag, kind, advice)
}

// maxArguments is how many bytes --args may have: a router takes no longer requests.
const maxArguments = 64 << 10

// Call runs a tool with the arguments of --args, and prints its result.
func Call(ctx context.Context, e *Env, request admin.CallRequest, args string) (err error) {
	if request.Arguments, err = readJSON(e.In, "--args", "a JSON object", args, maxArguments); err != nil {
		return err
	}
	request.Confirmed = true
	return showCall(ctx, e, "/dashboard/call", &request, asks(&request.Call), func(a admin.Answer) error {
		switch {
		case e.JSON:
			err = e.PrintJSON(a.Result)
		case a.NotRun == "":
			err = printResult(e, a.Result)
		}
		return cmp.Or(err, failure(a))
	})
}

// asks returns the question that an answer has about the call, and what agrees to it.
func asks(call *admin.Call) func(admin.Answer) (string, func()) {
	return func(a admin.Answer) (string, func()) {
		if a.Question == "" {
			return "", nil
		}
		return a.Question + "\nRun it?", func() { call.Agreed = a.Question }
	}
}

// failure returns why a call was not made, or an error without a text if it failed.
func failure(a admin.Answer) error {
	if a.NotRun != "" {
		return errors.New(a.NotRun)
	}
	if a.IsError {
		return &console.Error{Code: console.Failed}
	}
	return nil
}

// Route picks the tool for the words of a task, runs it with the arguments of --args if that is safe, and
// prints its result.
func Route(ctx context.Context, e *Env, words []string, request admin.RouteRequest, args string) (err error) {
	if request.Arguments, err = readJSON(e.In, "--args", "a JSON object", args, maxArguments); err != nil {
		return err
	}
	request.Task, request.Pairs = splitPairs(words)
	if strings.TrimSpace(request.Task) == "" {
		return console.Usage(errors.New(`the task is empty; write it in words: metarouter route "convert 5 km to miles"`))
	}
	return showCall(ctx, e, "/dashboard/route", &request, asks(&request.Call), func(a admin.Answer) error { return printRouted(e, a) })
}

var isPair = lazy.Regexp(`^[A-Za-z_][A-Za-z0-9_-]*=`)

// splitPairs returns the task, and the KEY=VALUE arguments behind its first word.
func splitPairs(args []string) (task string, pairs []string) {
	var words []string
	for i, arg := range args {
		if i > 0 && isPair().MatchString(arg) {
			pairs = append(pairs, arg)
		} else {
			words = append(words, arg)
		}
	}
	return strings.Join(words, " "), pairs
}

// printRouted prints the outcome of a task. Where a result is printed, the tool's name goes to stderr.
func printRouted(e *Env, a admin.Answer) error {
	route, shown := a.Route, a.Route.Alternatives
	picked, ran := route.Tool != "", a.Result != nil
	switch {
	case !picked:
		fmt.Fprintln(e.Err, verdict(true, len(shown) > 0))
		shown = shown[:min(len(shown), maxNearest)]
	case ran && a.NotRun == "" && !e.JSON:
		e.Note("%s (confidence %s)", route.Tool, shownConfidence(route.Confidence))
	case !ran && !route.Sure:
		fmt.Fprintln(e.Err, verdict(false, true))
	}
	var err error
	switch {
	case e.JSON:
		route.Alternatives = shown
		err = e.PrintJSON(route)
	case ran && a.NotRun == "":
		err = printResult(e, a.Result)
	case picked && !ran:
		err = printCandidates(e, slices.Concat([]admin.Candidate{route.Candidate}, shown))
	case !picked:
		err = printCandidates(e, shown)
	}
	if err == nil && !picked {
		err = &console.Error{Code: console.NoTool}
	}
	return cmp.Or(err, failure(a))
}

// printResult prints the text of a CallToolResult, and a line for each part of it that
// is not text. The text is cleaned for a terminal; otherwise it is as the server wrote it.
func printResult(e *Env, raw json.RawMessage) error {
	var result struct {
		Content []struct {
			Type, Text, Data, MimeType, URI string
			Resource                        struct{ URI, Text string }
		}
		StructuredContent json.RawMessage
	}
	if err := json.Unmarshal(raw, &result); err != nil {
		return e.PrintJSON(raw) // not a CallToolResult
	}
	for _, c := range result.Content {
		switch c.Type {
		case "text":
			fmt.Fprintln(e.Results(), c.Text)
		case "image", "audio":
			e.Say("[%s %s, %d bytes; --json prints it]", c.Type, c.MimeType, base64.StdEncoding.DecodedLen(len(c.Data)))
		case "resource":
			e.Say("[resource %s]", c.Resource.URI)
			fmt.Fprintln(e.Results(), c.Resource.Text)
		case "resource_link":
			e.Say("[resource %s]", c.URI)
		default:
			e.Say("[%s; --json prints it]", c.Type)
		}
	}
	if len(result.Content) == 0 && result.StructuredContent != nil {
		return e.PrintJSON(result.StructuredContent)
	}
	return nil
}

// Script runs the script of a file, or of stdin (-), with the input of --input, and prints the value that it returns.
func Script(ctx context.Context, e *Env, file string, request admin.ScriptRequest, input string) (err error) {
	if request.Timeout < 0 {
		return console.Usage(fmt.Errorf("--timeout is %v; write a time such as 30s", request.Timeout))
	}
	if request.Input, err = readJSON(nil, "--input", "JSON", input, admin.MaxScriptInput); err != nil {
		return err
	}
	code, err := readFile(e.In, "script", file, script.MaxCode)
	if err != nil {
		return console.Usage(err)
	}
	request.Code = string(code)
	return showCall(ctx, e, "/dashboard/script", &request, func(ran admin.Scripted) (string, func()) {
		if request.Yes || len(ran.Refused) == 0 {
			return "", nil
		}
		return "the script was stopped before it called:\n  " + strings.Join(ran.Refused, "\n  ") + "\nNo call has had an effect. Run it again, and agree to all of its calls?",
			func() { request.Yes = true }
	}, func(ran admin.Scripted) error { return printScript(e, file, ran.Script) })
}

// readFile reads a file, or stdin (-) if there is one, that an argument names. More than limit bytes are an error.
func readFile(stdin io.Reader, argument, path string, limit int64) ([]byte, error) {
	if path != "-" || stdin == nil {
		file, err := os.Open(path)
		if err != nil {
			return nil, configfile.InFlag(argument, err)
		}
		defer file.Close()
		stdin = file
	}
	text, err := io.ReadAll(io.LimitReader(stdin, limit+1))
	if int64(len(text)) > limit {
		err = fmt.Errorf("%s has more than %d KiB; make it shorter, or let a tool read the data", path, limit>>10)
	}
	if err != nil {
		return nil, configfile.InFlag(argument, err)
	}
	return text, nil
}

// printScript prints what the script of a file has given.
func printScript(e *Env, file string, ran script.Outcome) error {
	if e.JSON {
		if err := e.PrintJSON(ran); err != nil || ran.Err == nil {
			return err
		}
		return &console.Error{Code: console.Failed}
	}
	fmt.Fprint(e.Err, ran.Log)
	if ran.Err != nil {
		return errors.New(failureOf(file, ran))
	}
	if text, ok := wire.String(ran.Value); ok {
		fmt.Fprintln(e.Results(), text)
	} else if ran.Value != nil {
		if err := e.PrintJSON(ran.Value); err != nil {
			return err
		}
	}
	if ran.Content == nil {
		return nil
	}
	return printResult(e, wire.Marshal(map[string]any{"content": ran.Content}))
}

// failureOf says where and why a script failed, and which calls took effect.
func failureOf(file string, ran script.Outcome) string {
	if file == "-" {
		file = "stdin"
	}
	if ran.Err.Line > 0 {
		file = fmt.Sprintf("%s:%d", file, ran.Err.Line)
	}
	if ran.Err.Column > 0 {
		file = fmt.Sprintf("%s:%d", file, ran.Err.Column)
	}
	return fmt.Sprintf("%s: %s: %s\n%s", file, ran.Err.Name, ran.Err.Message, script.Effects(ran.Calls))
}
