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
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/dashboard"
	"github.com/mcp-metarouter/metarouter/internal/doctor"
	"github.com/mcp-metarouter/metarouter/internal/terminal"
	"github.com/mcp-metarouter/metarouter/server"
	"github.com/mcp-metarouter/metarouter/supervisor"
)

// doctor judges the servers of the running router, where there is one: the PATH and
// the variables that they have there are those that count, and a second copy of a
// server might find its port taken. Otherwise it starts them itself.
func (a *app) doctor() *cobra.Command {
	return a.jsonFlag(leaf("doctor", "Start every server, and say what is wrong and how to mend it",
		`  metarouter doctor
  metarouter doctor --config team.mcp.json --json`,
		cobra.NoArgs, func(ctx context.Context, _ []string) error {
			if a.router != nil {
				tryAgain(ctx, a.router)
				return a.printReport(a.examined(a.router, a.router.Config()), exitFailed)
			}
			c, named, err := a.locate()
			if err != nil {
				return a.unusable(err)
			}
			if done, err := a.askDoctor(ctx, c); done {
				return err
			}
			if !named {
				if err := a.requireTrust(ctx, c); err != nil {
					return err
				}
			}
			quiet := c
			quiet.Problems = nil // they are findings
			var report doctor.Report
			if err := a.alone(ctx, quiet, func(ctx context.Context, r *adapter.Router) error {
				a.waiting(r, func() { r.Try(ctx) })
				report = a.examined(r, c)
				return ctx.Err()
			}); err != nil {
				return err
			}
			return a.printReport(report, exitFailed)
		}))
}

// tryAgain starts the servers that do not run, those too that have failed before: what
// was wrong may have been mended since.
func tryAgain(ctx context.Context, r *adapter.Router) {
	var trying sync.WaitGroup
	for _, s := range r.Servers() {
		if s.State == supervisor.Failed || s.State == supervisor.NeedsAuth {
			trying.Go(func() { r.Await(ctx, s.Name) })
		}
	}
	r.Try(ctx)
	trying.Wait()
}

// unusable reports on a configuration of which nothing can be read.
func (a *app) unusable(err error) error {
	p, ok := errors.AsType[config.Problem](err)
	if !ok && !a.json {
		return err
	}
	if !ok {
		p = config.Problem{File: strings.Join(a.configs, ", "), Message: err.Error()}
	}
	return a.printReport(doctor.Unusable(p), exitUsage)
}

// examined judges what a router knows.
func (a *app) examined(r *adapter.Router, c config.Config) doctor.Report {
	snapshot := r.Snapshot()
	names := server.NewNames(snapshot.Tools(), c.Router.Names, c.Router.Separator)
	return doctor.Examine(dashboard.CaseOf(c, r.Servers(), snapshot, names, doctor.System{DataDir: a.data}))
}

// A diagnosis is a report as JSON.
type diagnosis struct {
	OK       bool             `json:"ok"`
	Findings []doctor.Finding `json:"findings"`
	Verdict  string           `json:"verdict"`
}

// askDoctor has a running router judge its servers, and prints what it says.
func (a *app) askDoctor(ctx context.Context, c config.Config) (done bool, err error) {
	o, done, err := a.request(ctx, c, append(slices.Clone(a.args), "--json"), false)
	if err != nil || !done {
		return done, err
	}
	var d diagnosis
	if json.Unmarshal(o.Stdout, &d) != nil {
		a.stderr.Write(o.Stderr)
		return true, &exitError{code: exitFailed}
	}
	return true, a.printDiagnosis(d, o.Code)
}

// printReport prints the report, and fails with the code if it is not good.
func (a *app) printReport(r doctor.Report, code int) error {
	if r.OK() {
		code = 0
	}
	return a.printDiagnosis(diagnosis{r.OK(), append([]doctor.Finding{}, r.Findings...), r.Verdict()}, code)
}

func (a *app) printDiagnosis(d diagnosis, code int) error {
	var err error
	if a.json {
		err = a.printJSON(d)
	} else {
		width, colour := a.paper()
		_, err = fmt.Fprint(a.stdout, terminal.Lines(prescription(d, width, colour)))
	}
	if err == nil && code != 0 {
		err = &exitError{code: code}
	}
	return err
}

// signs of how bad a finding is.
var severities = map[doctor.Severity]struct {
	mark   string
	colour terminal.Colour
}{
	doctor.Broken: {"✗", terminal.Red}, doctor.Warning: {"!", terminal.Yellow}, doctor.Note: {"·", terminal.Faint},
}

// prescription returns the findings as a person reads them: server by server, what is
// wrong, and under it what to do.
func prescription(d diagnosis, width int, colour bool) (lines []string) {
	for i, f := range d.Findings {
		if i == 0 || d.Findings[i-1].Server != f.Server {
			if i > 0 {
				lines = append(lines, "")
			}
			about := f.Server
			if about == "" {
				about = "in general"
			}
			lines = append(lines, terminal.Paint(terminal.Clean(about), terminal.Bold, colour))
		}
		sign := severities[f.Severity]
		lines = append(lines, hang("  "+terminal.Paint(sign.mark, sign.colour, colour)+" ", f.Problem, width)...)
		for _, said := range f.Details {
			lines = append(lines, hang("      "+terminal.Paint("|", terminal.Faint, colour)+" ", said, width)...)
		}
		if f.Fix != "" {
			lines = append(lines, hang("    → ", f.Fix, width)...)
		}
	}
	if len(lines) > 0 {
		lines = append(lines, "")
	}
	verdict := terminal.Red
	if d.OK {
		verdict = terminal.Green
	}
	return append(lines, terminal.Paint(d.Verdict, verdict, colour))
}

// hang breaks a text into lines of so many columns, behind a lead and under it; 0
// breaks nothing.
func hang(lead, text string, width int) (lines []string) {
	indent := strings.Repeat(" ", terminal.Width(lead))
	line, empty := lead, true
	for _, word := range strings.Fields(terminal.Clean(text)) {
		if !empty && width > 0 && terminal.Width(line)+1+terminal.Width(word) > width {
			lines = append(lines, line)
			line, empty = indent, true
		}
		if !empty {
			line += " "
		}
		line, empty = line+word, false
	}
	return append(lines, line)
}
