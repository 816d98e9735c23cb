package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/dashboard"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/doctor"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/progress"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/terminal"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/server"
)

func newDoctorCommand(env *environment) *cobra.Command {
	cmd := newCommand("doctor", "Start every server, and say what is wrong and how to fix it",
		`  metarouter doctor
  metarouter doctor --config team.mcp.json --json`,
		noArguments, func(ctx context.Context, _ []string) error { return runDoctor(ctx, env) })
	addJSONFlag(env, cmd)
	return cmd
}

// runDoctor examines the servers of the running router if there is one: their PATH and
// their variables are those that count, and a second copy of a server might find its
// port taken. Otherwise it starts the servers in this process.
func runDoctor(ctx context.Context, env *environment) error {
	if env.running != nil {
		r := env.running.router
		startAgain(ctx, r)
		return printReport(env, examine(ctx, env, r, r.Config()), exitFailed)
	}
	c, named, err := locateConfig(env)
	if err != nil {
		return printUnusable(env, err)
	}
	if done, err := askRunningDoctor(ctx, env, c); done {
		return err
	}
	if !named {
		if c, err = requireTrust(ctx, env, c); err != nil {
			return err
		}
	}
	quiet := c
	quiet.Problems = nil // the report has them as findings
	var report doctor.Report
	if err := withOwnRouter(ctx, env, quiet, func(ctx context.Context, r *adapter.Parts) error {
		progress.ShowServers(env.stderr, r, func() { r.Try(ctx) })
		report = examine(ctx, env, r, c)
		return ctx.Err()
	}); err != nil {
		return err
	}
	return printReport(env, report, exitFailed)
}

// startAgain starts the servers that do not run, including those that failed before,
// since the cause may have been fixed.
func startAgain(ctx context.Context, r *adapter.Parts) {
	var trying sync.WaitGroup
	for _, s := range r.Servers() {
		if s.State == status.Failed || s.State == status.NeedsAuth {
			trying.Go(func() { r.Await(ctx, s.Name) })
		}
	}
	r.Try(ctx)
	trying.Wait()
}

// printUnusable reports a configuration that can't be read.
func printUnusable(env *environment, err error) error {
	p, ok := errors.AsType[config.Problem](err)
	if !ok && !env.json {
		return err
	}
	if !ok {
		p = config.Problem{File: strings.Join(env.configs, ", "), Message: err.Error()}
	}
	return printReport(env, doctor.Unusable(p), exitUsage)
}

// examine returns the report on a router: its servers, and the models that it asks.
func examine(ctx context.Context, env *environment, r *adapter.Parts, c config.Config) doctor.Report {
	snapshot := r.Snapshot()
	names := server.NewNames(snapshot.Tools(), c.Router.Names, c.Router.Separator)
	found := dashboard.CaseOf(c, r.Servers(), snapshot, names, doctor.System{DataDir: env.data})
	found.Assist = doctor.AskAssist(ctx, c.Router.Assist)
	found.Embeddings = doctor.AskEmbeddings(ctx, c.Router.Embeddings)
	return doctor.Examine(found)
}

// askRunningDoctor has a running router examine its servers, and prints its report.
func askRunningDoctor(ctx context.Context, env *environment, c config.Config) (done bool, err error) {
	o, done, err := requestOutcome(ctx, env, c, append(slices.Clone(env.args), "--json"), false)
	if err != nil || !done {
		return done, err
	}
	var d doctor.Diagnosis
	if json.Unmarshal(o.Stdout, &d) != nil {
		env.stderr.Write(o.Stderr)
		return true, &exitError{code: exitFailed}
	}
	return true, printDiagnosis(env, d, o.Code)
}

// printReport prints the report, and fails with the code unless all is well.
func printReport(env *environment, r doctor.Report, code int) error {
	if r.OK() {
		code = 0
	}
	return printDiagnosis(env, r.Diagnosis(), code)
}

func printDiagnosis(env *environment, d doctor.Diagnosis, code int) error {
	var err error
	if env.json {
		err = env.printJSON(d)
	} else {
		columns, colours := env.page()
		_, err = fmt.Fprint(env.stdout, terminal.Lines(d.Lines(columns, colours)))
	}
	if err == nil && code != 0 {
		err = &exitError{code: code}
	}
	return err
}
