package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/clients"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/configfile"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/dashboard"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/doctor"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/edit"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/exit"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/port"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/progress"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/telemetry"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/terminal"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/server"
)

func newDoctorCommand(env *environment) *cobra.Command {
	var pins, write bool
	cmd := newCommand("doctor", "Start every server, and say what is wrong and how to fix it",
		`  metarouter doctor
  metarouter doctor --config team.mcp.json --json
  metarouter doctor --pin --write`,
		noArguments, func(ctx context.Context, _ []string) error { return runDoctor(ctx, env, pins, write) })
	cmd.Long = `Starts every server, and says what is wrong and how to fix it.

With --pin it also shows how the configuration would change if npm and PyPI packages had the
exact versions that run now, so that npx and uvx need not look them up at each start.
--write writes that, and keeps a copy of the old file next to it.`
	addJSONFlag(cmd, env.Console)
	cmd.Flags().BoolVar(&pins, "pin", false, "Show the configuration with exact versions of npm and PyPI packages. By default versions are not looked at.")
	cmd.Flags().BoolVar(&write, "write", false, "With --pin, write the file, and keep a copy of the old one next to it. By default the change is only shown.")
	return cmd
}

// runDoctor examines the servers of the running router if there is one: their PATH and
// their variables are those that count, and a second copy of a server might find its
// port taken. Otherwise it starts the servers in this process. With pins it then shows, and
// with write writes, the exact versions of packages.
func runDoctor(ctx context.Context, env *environment, pins, write bool) error {
	if env.running != nil {
		r := env.running.router
		startAgain(ctx, r)
		_, why := env.running.edits.now()
		report := examine(ctx, env, r, r.Config(), forAsker(env, why))
		d, code := report.Diagnosis(), 0
		if !report.OK() {
			code = exit.Failed
		}
		if text, err := config.LoadText(r.Configured().Files...); err != nil || text.Digest() != r.Configured().Digest() {
			d.Packages = nil // they run for other entries than the files have now
		}
		return printDiagnosis(env, d, code)
	}
	switch {
	case write && !pins:
		return exit.Usage(errors.New("--write needs --pin"))
	case pins && env.JSON:
		return exit.Usage(errors.New("--pin shows a change of the file, which is no JSON; leave --json out"))
	}
	c, named, err := env.files.Locate()
	if err != nil && !configfile.IsMistake(err) {
		return printUnusable(env, err)
	}
	mistake := err
	d, code, done, err := askRunningDoctor(ctx, env, c)
	if !done && mistake != nil {
		return printUnusable(env, mistake)
	}
	if !done {
		d, code, err = diagnose(ctx, env, c, named)
	}
	if _, untrusted := errors.AsType[*config.Untrusted](err); untrusted && pins {
		return exit.Usage(fmt.Errorf("nothing is pinned: %w", err))
	}
	if err != nil {
		return err
	}
	err = printDiagnosis(env, d, code)
	if !pins {
		return err
	}
	e := edit.Editor{Source: &env.files, Write: write}
	return cmp.Or(edit.Pin(ctx, &e, d.Packages, c.Digest()), err)
}

// diagnose starts the servers in this process, and returns the report on them with the exit
// code.
func diagnose(ctx context.Context, env *environment, c config.Config, named bool) (d doctor.Diagnosis, code int, err error) {
	if !named {
		if c, err = env.files.RequireTrust(ctx, c); err != nil {
			return d, 0, err
		}
	}
	quiet := c
	quiet.Problems = nil // the report has them as findings
	var report doctor.Report
	if err := env.local.Run(ctx, quiet, func(ctx context.Context, r *adapter.Parts) error {
		progress.ShowServers(env.Err, r, func() { r.Try(ctx) })
		report = examine(ctx, env, r, c, nil)
		return ctx.Err()
	}); err != nil {
		return d, 0, err
	}
	if !report.OK() {
		code = exit.Failed
	}
	return report.Diagnosis(), code, nil
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
	if none, is := errors.AsType[*configfile.NoConfiguration](err); is && env.JSON {
		p, ok = none.Problem("error"), true
	}
	if !ok && !env.JSON {
		return err
	}
	if !ok {
		p = config.Problem{File: strings.Join(env.files.Paths, ", "), Message: err.Error()}
	}
	return printReport(env, doctor.Unusable(p), exit.BadUsage)
}

// examine returns the report on a router: its servers, the models that it asks, the issuers that let clients in, and its cluster. edit says
// why the last edit is not in use; nil if it is.
func examine(ctx context.Context, env *environment, r *adapter.Parts, c config.Config, edit error) doctor.Report {
	c = c.Examine()
	snapshot := r.Snapshot()
	names := server.NewNames(snapshot.Tools(), c.Router.Names, c.Router.Separator, c.Router.Gateway.Prefix)
	found := dashboard.CaseOf(c, r.Servers(), snapshot, names, doctor.System{DataDir: env.files.Data})
	found.Edit = edit
	found.Assist = doctor.AskAssist(ctx, c.Router.Assist)
	found.Embeddings = doctor.AskEmbeddings(ctx, c.Router.Embeddings)
	found.Issuers = doctor.AskIssuers(ctx, c.Router.HTTP)
	found.Cluster = doctor.AskCluster(ctx, c.Router.Cluster, version)
	found.Traces = telemetry.CheckTraces()
	if live, _, ok := r.ClusterReport(); ok && found.Cluster != nil {
		found.Cluster.AddDenied(live)
	}
	found.Port = portInUse(ctx, env, c)
	return doctor.Examine(found)
}

// portInUse returns the address at which the configuration is to be served over HTTP, if a
// program listens there that does not serve it. It looks only if the configuration sets the
// address or a client has an entry for it.
func portInUse(ctx context.Context, env *environment, c config.Config) *doctor.Port {
	address := c.Router.HTTP.Addr
	p := &doctor.Port{Address: address, Set: slices.Contains(c.RestartKeys(), "http.addr"), Clients: clientsOf(address)}
	if !p.Set && len(p.Clients) == 0 {
		return nil
	}
	holder, used := port.InUse(ctx, address)
	if !used || holder.PID == os.Getpid() {
		return nil
	}
	ours, _ := os.Executable()
	p.Router = holder.Path != "" && holder.Path == ours || strings.TrimSuffix(holder.Program, ".exe") == "metarouter"
	if p.Router && (env.running != nil || env.standalone) {
		return nil // it may serve this configuration
	}
	p.Holder, p.Next = holder.String(), port.Next(ctx, address)
	if holder.PID != 0 {
		p.End = fmt.Sprintf("kill %d", holder.PID)
		if runtime.GOOS == "windows" {
			p.End = fmt.Sprintf("taskkill /PID %d", holder.PID)
		}
	}
	return p
}

// clientsOf returns the clients whose files have an entry with a URL of the address.
func clientsOf(address string) (titles []string) {
	place, err := clients.ThisPlace()
	if err != nil {
		return nil
	}
	for _, client := range clients.All() {
		read, err := clients.Read(clients.FirstExisting(client.Files(place)...))
		if err != nil || !read.Exists {
			continue
		}
		c, err := config.ReadText(read.Path, read.Data)
		if err == nil && slices.ContainsFunc(c.Servers, func(s config.Server) bool { return sameAddress(s.URL, address) }) {
			titles = append(titles, client.Title)
		}
	}
	return titles
}

// sameAddress reports whether a URL leads to an address of this machine.
func sameAddress(link, address string) bool {
	u, err := url.Parse(link)
	host, port, bad := net.SplitHostPort(address)
	if err != nil || bad != nil || u.Host == "" || u.Port() != port {
		return false
	}
	local := func(host string) bool {
		ip := net.ParseIP(host)
		return host == "" || host == "localhost" || ip.IsLoopback() || ip.IsUnspecified()
	}
	return u.Hostname() == host || local(u.Hostname()) && local(host)
}

// askRunningDoctor has a running router examine its servers, and returns its report with the
// exit code. done is false if no router runs.
func askRunningDoctor(ctx context.Context, env *environment, c config.Config) (d doctor.Diagnosis, code int, done bool, err error) {
	o, done, err := requestOutcome(ctx, env, c, append(slices.Clone(env.args), "--json"), false)
	if err != nil || !done {
		return d, 0, done, err
	}
	if json.Unmarshal(o.Stdout, &d) != nil {
		env.Err.Write(o.Stderr)
		return d, 0, true, &exit.Error{Code: exit.Failed}
	}
	return d, o.Code, true, nil
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
	if env.JSON {
		err = env.PrintJSON(d)
	} else {
		columns, colours := env.Page()
		_, err = fmt.Fprint(env.Out, terminal.Lines(d.Lines(columns, colours)))
	}
	if err == nil && code != 0 {
		err = &exit.Error{Code: code}
	}
	return err
}
