package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/admin"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/configfile"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/exit"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/plan"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/terminal"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/trustfile"
	"github.com/mcp-metarouter/metarouter/registry"
)

// Plan compares a file with the configuration in use, and prints the changes. It knows the tools
// from the stored catalog, which a running router keeps up to date. While an edit of the configuration waits
// for approval, the running router has the text in use.
//
// Without start nothing runs, so neither file has to be trusted. With start, the new
// servers of the file run: a file that the command line names is used, as with --config.
func Plan(ctx context.Context, e *Env, file string, start bool) error {
	now, named, err := e.Files.Locate()
	if err != nil {
		return err
	}
	var waits *trustfile.Untrusted
	if u, ok := errors.AsType[*trustfile.Untrusted](now.Text.Trusted(e.Files.Data)); ok && !named && u.Before {
		waits = u
	}
	next, err := config.Load(file)
	if err != nil {
		return exit.Usage(configfile.Unreadable(err))
	}
	asked := false
	var p plan.Plan
	if waits != nil && !start {
		if p, asked, err = e.askForPlan(ctx, now, next.Files[0]); err != nil {
			return err
		}
	}
	if !asked {
		old, new := adapter.NewPreview(now, nil, e.Files.Data), adapter.NewPreview(next, &now, e.Files.Data)
		if start {
			if err := startUnknown(ctx, e, next, &new); err != nil {
				return err
			}
		}
		p = plan.Compare(plan.SideOf(now, old), plan.SideOf(next, new))
		if waits != nil {
			noteNotKept(e, &p, waits, next)
		}
	}
	if e.JSON {
		err = e.PrintJSON(p)
	} else {
		_, colours := e.Page()
		_, err = fmt.Fprint(e.Out, terminal.Lines(p.Lines(start, colours)))
	}
	if err != nil {
		return err
	}
	for _, problem := range next.Problems {
		e.Note("%s", problem.Error())
	}
	if len(configfile.Errors(next)) > 0 {
		err = &exit.Error{Code: exit.BadUsage}
	}
	return err
}

// askForPlan has a running router compare the file with the configuration that it uses. ok is false if
// no router runs.
func (e *Env) askForPlan(ctx context.Context, c config.Config, file string) (p plan.Plan, ok bool, err error) {
	running := e.running(ctx, c)
	if len(running) == 0 {
		return p, false, nil
	}
	var answer admin.Planned
	asked := &apiClient{Env: e, config: c, routers: running[:1]}
	err = asked.post(ctx, "/dashboard/plan", url.Values{"file": {file}}, struct{}{}, &answer)
	p = answer.Plan
	p.Before, p.After, p.Mode, p.Restart = answer.Before, answer.After, answer.Mode, answer.Restart
	return p, true, err
}

// noteNotKept says that the text in use is not known. If FILE is the edit that waits, the plan
// gets the names of the entries that differ.
func noteNotKept(e *Env, p *plan.Plan, waits *trustfile.Untrusted, next config.Config) {
	file := waits.Text.Files[0]
	if slices.Equal(next.Files, waits.Text.Files) {
		p.Servers.Added, p.Servers.Removed, p.Servers.Changed = append([]string{}, waits.Added...), append([]string{}, waits.Removed...), append([]string{}, waits.Edited...)
		e.Note("note: the text of %s that you approved is not kept, so only the names of the entries that differ from it are known: %v", file, waits)
		return
	}
	e.Note("note: the text of %s that you approved is not kept, so this is compared with the edit that waits: %v", file, waits)
}

// startUnknown starts the servers with tools that the preview does not know, and adds the
// tools to it.
func startUnknown(ctx context.Context, e *Env, c config.Config, p *adapter.Preview) error {
	wanted := slices.AppendSeq(slices.Clone(p.Unknown), maps.Keys(p.Named))
	all := c.Servers
	c.Servers, c.Problems, c.Router.Pinned = nil, nil, nil
	for _, s := range all {
		if slices.Contains(wanted, s.Name) {
			c.Servers = append(c.Servers, s)
		}
	}
	if len(c.Servers) == 0 {
		return nil
	}
	return e.askAlone(ctx, c, need{}, func(ctx context.Context, asked *apiClient) error {
		if err := asked.get(ctx, "/dashboard/capabilities", url.Values{"wait": {"1"}}, &admin.Capabilities{}); err != nil {
			return err
		}
		r := asked.alone
		p.Unknown, p.Named = nil, nil
		for _, s := range c.Servers {
			if !slices.Contains(r.Unlisted(), s.Name) {
				p.Offers[s.Name] = offerOf(r.Snapshot().Offer(s.Name))
			} else {
				p.Unknown = append(p.Unknown, s.Name)
			}
		}
		return nil
	})
}

func offerOf(l registry.Listing) (o registry.Offer) {
	for _, t := range l.Tools {
		o.Tools = append(o.Tools, *t)
	}
	return o
}
