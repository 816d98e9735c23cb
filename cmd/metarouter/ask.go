package main

import (
	"bytes"
	"context"
	"net/http"
	"sync"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/console"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/daemon"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/exit"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/progress"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/service"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/telemetry"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/server"
)

// askRunningRouter has the running router of the same files carry out the command and
// prints what it answers; with all, every such router carries it out. done is false if
// no router runs, or --standalone forbids to ask it.
func askRunningRouter(ctx context.Context, env *environment, c config.Config, all bool) (done bool, err error) {
	o, done, err := requestOutcome(ctx, env, c, env.args, all)
	for err == nil && o.Question != "" {
		agreed, interrupted := agrees(ctx, env, o.Question)
		if interrupted != nil {
			return true, exit.Interrupted
		}
		if !agreed {
			break
		}
		env.agreed = o.Question
		o, done, err = requestOutcome(ctx, env, c, env.args, all)
	}
	if err != nil || !done {
		return done, err
	}
	env.Err.Write(o.Stderr)
	if _, err := env.Results().Write(o.Stdout); err != nil {
		return true, err
	}
	if o.Code != 0 {
		return true, &exit.Error{Code: o.Code}
	}
	return true, nil
}

// requestOutcome has the running router carry out a command line, and returns what it
// answers instead of printing it.
func requestOutcome(ctx context.Context, env *environment, c config.Config, args []string, all bool) (o daemon.Outcome, done bool, err error) {
	if env.standalone || env.running != nil {
		return o, false, nil
	}
	columns, colours := env.Page()
	command := daemon.Command{Program: program(), Args: args, Input: env.input, Columns: columns, Colours: colours, Asks: env.CanAsk(), Agreed: env.agreed}
	progress.ShowAsking(env.Err, func() { o, done, err = daemon.Run(ctx, daemon.PlaceOf(env.files.Data, c.Files), command, all) })
	if ctx.Err() != nil {
		return o, true, exit.Interrupted
	}
	return o, done, err
}

// handleCommands adds to mux the route at which the router carries out the commands of
// other processes.
func handleCommands(env *environment, mux *http.ServeMux, r *adapter.Parts, said *edits, mode func() string, costs func(*adapter.Parts) []telemetry.Cost) {
	daemon.Commands(mux, program(), func(ctx context.Context, c daemon.Command) daemon.Outcome {
		said.settle(ctx, env.files.Data, r)
		var stdout, stderr bytes.Buffer
		asked := newEnvironment(console.To(&stdout, &stderr, c.Columns, c.Colours), c.Args...)
		asked.files.Data, asked.input = env.files.Data, c.Input
		asked.running = &hosted{router: r, edits: said, mode: mode(), costs: costs, asks: c.Asks, agreed: c.Agreed}
		code := exit.Report(execute(ctx, asked), asked.Err)
		return daemon.Outcome{Stdout: stdout.Bytes(), Stderr: stderr.Bytes(), Code: code, Question: asked.running.question}
	})
}

// listenForCommands returns a listener for the commands of other processes, and for the
// pages that 'metarouter dashboard' requests.
func listenForCommands(env *environment, c config.Config, from *service.Service, said *edits, log *zap.Logger) service.Listener {
	return func(ctx context.Context, r *adapter.Parts, s *server.Servers) error {
		mux := http.NewServeMux()
		handleCommands(env, mux, r, said, s.Default().Mode, from.Observers.Costs)
		mux.Handle("/", daemon.During(ctx, from.Pages))
		if err := daemon.Serve(ctx, daemon.PlaceOf(env.files.Data, c.Files), mux); err != nil {
			log.Warn("other commands can't ask this router", zap.Error(err))
		}
		return nil
	}
}

// program identifies this build of the program.
var program = sync.OnceValue(func() string { return daemon.Program(version) })
