package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/clients"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/configfile"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/console"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/doctor"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/edit"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/plain"
	"github.com/mcp-metarouter/metarouter/internal/trustfile"
)

// Doctor prints the faults of the servers. With pin it then shows, and with write writes, the exact
// versions of packages.
func Doctor(ctx context.Context, e *Env, pin, write bool) error {
	if write && !pin {
		return console.Usage(errors.New("--write needs --pin"))
	}
	asked, used := false, config.Config{}
	var d doctor.Diagnosis
	err := e.ask(ctx, need{peek: true, quiet: true, secrets: true}, func(ctx context.Context, c *apiClient) error {
		asked, used = true, c.config
		return c.send(ctx, "/dashboard/doctor", struct{}{}, &d)
	})
	_, untrusted := errors.AsType[*trustfile.Untrusted](err)
	switch {
	case err != nil && !asked && !untrusted && !errors.Is(err, console.Interrupted):
		return printUnusable(e, err)
	case err != nil:
		return err
	}
	if p, err := clients.ThisSystem(); err == nil {
		for _, m := range clients.Misfits(p, used) {
			d.Findings = append(d.Findings, doctor.Finding{Severity: doctor.Note, Problem: m.Problem, Fix: m.Fix})
		}
	}
	err = printDiagnosis(e, d, pin, console.Failed)
	if pin {
		err = cmp.Or(edit.Pin(&edit.Editor{Source: e.Files, Write: write}, d.Packages), err)
	}
	return err
}

func printUnusable(e *Env, err error) error {
	p, ok := errors.AsType[config.Problem](err)
	if none, is := errors.AsType[*configfile.NoConfiguration](err); is && e.JSON {
		p, ok = none.Problem("error"), true
	}
	if !ok && !e.JSON {
		return err
	}
	if !ok {
		p = config.Problem{File: strings.Join(e.Files.Paths, ", "), Message: err.Error()}
	}
	return printDiagnosis(e, doctor.Unusable(p), false, console.BadUsage)
}

// printDiagnosis prints the diagnosis, and fails with the code unless all is well.
func printDiagnosis(e *Env, d doctor.Diagnosis, pinning bool, code int) (err error) {
	if !d.OK {
		err = &console.Error{Code: code}
	}
	if e.JSON {
		return cmp.Or(e.PrintJSON(d), err)
	}
	printFindings(e, d, pinning)
	return err
}

// marks are how findings begin on a terminal.
var marks = map[doctor.Severity]struct {
	text   string
	colour console.Colour
}{
	doctor.Broken: {"✗", console.Red}, doctor.Warning: {"!", console.Yellow}, doctor.Note: {"·", console.Faint},
}

// printFindings prints the findings server by server: the problem, and under it the fix. The advice to pin versions is
// given once, and not at all while they are being pinned.
func printFindings(e *Env, d doctor.Diagnosis, pinning bool) {
	_, colours := e.Page()
	paint := func(text string, c console.Colour) string { return console.Paint(plain.Line(text), c, colours) }
	for i, f := range d.Findings {
		if i > 0 && d.Findings[i-1].Server != f.Server {
			fmt.Fprintln(e.Out)
		}
		if i == 0 || d.Findings[i-1].Server != f.Server {
			fmt.Fprintln(e.Out, paint(cmp.Or(f.Server, "in general"), console.Bold))
		}
		e.SayBroken("  "+paint(marks[f.Severity].text, marks[f.Severity].colour)+" ", f.Problem)
		for _, line := range f.Details {
			e.SayBroken("      "+paint("|", console.Faint)+" ", line)
		}
		if isPin := f.Fix == doctor.PinAdvice; f.Fix != "" && !(isPin && pinning) {
			e.SayBroken("    → ", e.Files.Advise(f.Fix))
			pinning = pinning || isPin
		}
	}
	if len(d.Findings) > 0 {
		fmt.Fprintln(e.Out)
	}
	verdict := console.Red
	if d.OK {
		verdict = console.Green
	}
	fmt.Fprintln(e.Out, console.Paint(d.Verdict, verdict, colours))
}
