// Command orchestrator hands out tasks: to the MCP servers of a .mcp.json, to functions
// of its own and to the models of an AI provider, whichever suits each best. It says
// why, and shows what came of it.
//
//	go run ./examples/orchestrator -config .mcp.json.example \
//		'How many metres are 6 feet? {"value": 6, "from_unit": "ft", "to_unit": "m"}' \
//		'How many days are between two dates? {"from": "2026-01-01", "to": "2026-03-01"}'
//
// Tasks are arguments, or lines of stdin. A JSON object at the end of a task is what the
// tool is given. Where there is none and the tool needs something, a model is asked for
// it, if there is one: -chat, or OPENAI_BASE_URL, says where, and OPENAI_API_KEY is its
// key. Ollama's is http://localhost:11434/v1.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/mcp-metarouter/metarouter/adapter"
)

func main() {
	options := adapter.Embed(adapter.Options{}) // first: this process may be the router's helper
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, options, os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "orchestrator:", err)
		os.Exit(1)
	}
}

// run does the tasks that the arguments or stdin name.
func run(ctx context.Context, options adapter.Options, args []string, stdin io.Reader, stdout io.Writer) (err error) {
	flags := flag.NewFlagSet("orchestrator", flag.ContinueOnError)
	config := flags.String("config", "", "`file` with MCP servers, such as .mcp.json")
	chat := flags.String("chat", os.Getenv("OPENAI_BASE_URL"), "base `URL` of an AI provider, such as http://localhost:11434/v1")
	model := flags.String("model", "", "the one `model` of it to use (default: all that it has)")
	data := flags.String("data", "", "`folder` in which the servers' tools are remembered")
	if err := flags.Parse(args); err != nil {
		return err
	}
	options.DataDir = *data

	var providers []adapter.ProviderAdapter
	own, err := functions()
	if err != nil {
		return err
	}
	providers = append(providers, own)
	if *config != "" {
		router, err := adapter.Open(ctx, options, *config)
		if err != nil {
			return errors.Join(err, own.Close())
		}
		providers = append(providers, router)
		waiting, cancel := context.WithTimeout(ctx, time.Minute)
		router.Settled(waiting)
		cancel()
	}
	if *chat != "" {
		ai, err := open(ctx, *chat, *model)
		if err != nil {
			return errors.Join(err, closeAll(providers))
		}
		providers = append(providers, ai)
	}
	all, err := adapter.NewMux("all", providers...)
	if err != nil {
		return errors.Join(err, closeAll(providers))
	}
	defer func() { err = errors.Join(err, all.Close()) }()

	fmt.Fprintf(stdout, "%d tools; %s\n", len(all.Tools()), all.Health(ctx))
	o := orchestrator{all, stdout}
	for n, task := range tasks(flags.Args(), stdin) {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		fmt.Fprintf(stdout, "\n%d. ", n+1)
		if err := o.do(ctx, task); err != nil {
			return err
		}
	}
	return nil
}

// open returns the AI provider at the base URL. One that is down is no reason to do
// nothing at all.
func open(ctx context.Context, base, model string) (*adapter.Chat, error) {
	o := adapter.ChatOptions{BaseURL: base}
	if model != "" {
		o.Models = []adapter.Model{{ID: model}}
	}
	ai, err := adapter.NewChat("ai", o)
	if err == nil {
		_ = ai.Refresh(ctx) // its health says why it failed
	}
	return ai, err
}

func closeAll(providers []adapter.ProviderAdapter) (err error) {
	for _, p := range providers {
		err = errors.Join(err, p.Close())
	}
	return err
}

// tasks returns the arguments, or the lines of stdin if there are none.
func tasks(args []string, stdin io.Reader) []string {
	if len(args) > 0 {
		return args
	}
	var all []string
	for lines := bufio.NewScanner(stdin); lines.Scan(); {
		if task := strings.TrimSpace(lines.Text()); task != "" {
			all = append(all, task)
		}
	}
	return all
}
