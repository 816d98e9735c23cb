package plan

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/configfile"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/console"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/exit"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/oneshot"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/terminal"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/registry"
)

// Show compares a file with the configuration in use, and prints what would change. waits is the edit of
// the configuration that waits for approval, nil if none does; then now is its text. It knows the tools from the
// stored catalog, which a running router keeps up to date.
//
// Without start nothing runs, so neither file has to be trusted. With start, the new
// servers of the file run: a file that the command line names is used, as with --config.
func Show(ctx context.Context, local *oneshot.Runner, now config.Config, waits *config.Untrusted, file string, start bool) error {
	out := local.Files.Console
	next, err := config.Load(file)
	if err != nil {
		return exit.Usage(configfile.Unreadable(err))
	}
	old := adapter.NewPreview(now, nil, local.Files.Data)
	new := adapter.NewPreview(next, &now, local.Files.Data)
	if start {
		if err := startUnknown(ctx, local, next, &new); err != nil {
			return err
		}
	}
	p := Compare(SideOf(now, old), SideOf(next, new))
	if waits != nil {
		noteNotKept(out, &p, waits, next)
	}
	if out.JSON {
		err = out.PrintJSON(p)
	} else {
		_, colours := out.Page()
		_, err = fmt.Fprint(out.Out, terminal.Lines(p.Lines(start, colours)))
	}
	if err != nil {
		return err
	}
	for _, p := range next.Problems {
		out.Note("%s", p.Error())
	}
	if len(configfile.Errors(next)) > 0 {
		err = &exit.Error{Code: exit.BadUsage}
	}
	return err
}

// noteNotKept says that the text in use is not known. If FILE is the edit that waits, the plan
// gets the names of the entries that differ.
func noteNotKept(out *console.Console, p *Plan, waits *config.Untrusted, next config.Config) {
	file := waits.Text.Files[0]
	if slices.Equal(next.Files, waits.Text.Files) {
		p.Servers.Added, p.Servers.Removed, p.Servers.Changed = append([]string{}, waits.Added...), append([]string{}, waits.Removed...), append([]string{}, waits.Edited...)
		out.Note("note: the text of %s that you approved is not kept, so only the names of the entries that differ from it are known: %v", file, waits)
		return
	}
	out.Note("note: the text of %s that you approved is not kept, so this is compared with the edit that waits: %v", file, waits)
}

// startUnknown starts the servers whose tools the preview does not know, and adds the
// tools to it.
func startUnknown(ctx context.Context, local *oneshot.Runner, c config.Config, p *adapter.Preview) error {
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
	return local.Run(ctx, c, func(ctx context.Context, r *adapter.Parts) error {
		if err := oneshot.AwaitTools(ctx, local.Files.Console, r); err != nil {
			return err
		}
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
