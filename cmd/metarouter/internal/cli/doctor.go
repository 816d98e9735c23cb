package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/clients"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/configfile"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/console"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/doctor"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/edit"
	"github.com/mcp-metarouter/metarouter/config"
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
	if !e.JSON {
		d = d.PinOnce(pin)
	}
	err = printDiagnosis(e, d, console.Failed)
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
	return printDiagnosis(e, doctor.Unusable(p), console.BadUsage)
}

// printDiagnosis prints the diagnosis, and fails with the code unless all is well.
func printDiagnosis(e *Env, d doctor.Diagnosis, code int) error {
	var err error
	if e.JSON {
		err = e.PrintJSON(d)
	} else {
		columns, colours := e.Page()
		d.Findings = slices.Clone(d.Findings)
		for i := range d.Findings {
			d.Findings[i].Fix = e.Files.Advise(d.Findings[i].Fix)
		}
		_, err = fmt.Fprint(e.Out, console.Lines(d.Lines(columns, colours)))
	}
	if err == nil && !d.OK {
		err = &console.Error{Code: code}
	}
	return err
}
