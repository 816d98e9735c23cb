package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/admin"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/configfile"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/console"
	"github.com/mcp-metarouter/metarouter/internal/script"
	"github.com/mcp-metarouter/metarouter/internal/wire"
)

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
