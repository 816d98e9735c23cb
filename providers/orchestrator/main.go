// Command orchestrator gives each task to the tool that fits it best: a tool of the MCP
// servers in a .mcp.json, a function of its own, or a model of an AI service. It prints why,
// and the result.
//
//	go -C providers run ./orchestrator -config ../.mcp.json.example \
//		'How many metres are 6 feet? {"value": 6, "from_unit": "ft", "to_unit": "m"}' \
//		'How many days are between two dates? {"from": "2026-01-01", "to": "2026-03-01"}'
//
// Tasks are arguments, or lines of stdin. A JSON object at the end of a task is the
// tool's arguments. If a task has no such object and the tool needs arguments, a model
// writes them: -chat, or OPENAI_BASE_URL, is the URL of the AI service, and OPENAI_API_KEY
// its key. Ollama's URL is http://localhost:11434/v1.
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
	"github.com/mcp-metarouter/metarouter/providers/mux"
	"github.com/mcp-metarouter/metarouter/providers/openai"
)

func main() {
	options := adapter.Embed(adapter.Options{}) // first: this process may be a helper of the router
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, options, os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "orchestrator:", err)
		os.Exit(1)
	}
}

// run does the tasks in the arguments or in stdin.
func run(ctx context.Context, options adapter.Options, args []string, stdin io.Reader, stdout io.Writer) (err error) {
	flags := flag.NewFlagSet("orchestrator", flag.ContinueOnError)
	config := flags.String("config", "", "`file` with MCP servers, such as .mcp.json")
	chat := flags.String("chat", os.Getenv("OPENAI_BASE_URL"), "base `URL` of an AI service, such as http://localhost:11434/v1")
	model := flags.String("model", "", "the only `model` of the service to use (default: all)")
	data := flags.String("data", "", "`folder` that keeps the servers' tools for the next start")
	if err := flags.Parse(args); err != nil {
		return err
	}
	options.DataDir = *data

	var providers []adapter.ProviderAdapter
	own, err := ownFunctions()
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
	all, err := mux.New("all", providers...)
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

// open returns the AI service at the base URL as a provider. The program goes on if the
// service is down.
func open(ctx context.Context, base, model string) (adapter.ProviderAdapter, error) {
	o := openai.Options{BaseURL: base}
	if model != "" {
		o.Models = []openai.Model{{ID: model}}
	}
	ai, err := openai.New("ai", o)
	if err == nil {
		ai.Health(ctx) // lists its models
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
