package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/configfile"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/exit"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/oneshot"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/plan"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/terminal"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/registry"
)

func newPlanCommand(env *environment) *cobra.Command {
	var start bool
	cmd := newCommand("plan FILE", "Show what would change if FILE replaced the configuration in use",
		`  metarouter plan new.mcp.json
  metarouter plan new.mcp.json --start --json`,
		arguments(1, 1, "name one file"), func(ctx context.Context, args []string) error { return runPlan(ctx, env, args[0], start) })
	cmd.Long = `Shows what would change if FILE replaced the configuration in use: the file
of --config, or else the file that metarouter finds by itself. While an edit of that
file waits for your approval, the running router's is compared.`
	addJSONFlag(env, cmd)
	cmd.Flags().BoolVar(&start, "start", false, "Start the servers of FILE whose tools are not known, to count their tools. By default nothing is started.")
	return cmd
}

// runPlan compares a file with the configuration in use. It knows the tools from the
// stored catalog, which a running router keeps up to date.
//
// Without start nothing runs, so neither file has to be trusted. With start, the new
// servers of the file run: a file that the command line names is used, as with --config.
func runPlan(ctx context.Context, env *environment, file string, start bool) error {
	now, waits, done, err := configInUse(ctx, env, file, start)
	if err != nil || done {
		return err
	}
	next, err := config.Load(file)
	if err != nil {
		return exit.Usage(configfile.Unreadable(err))
	}
	old := adapter.NewPreview(now, nil, env.files.Data)
	new := adapter.NewPreview(next, &now, env.files.Data)
	if start && env.running == nil {
		if err := startUnknown(ctx, env, next, &new); err != nil {
			return err
		}
	}
	p := plan.Compare(plan.SideOf(now, old), plan.SideOf(next, new))
	if waits != nil {
		sayNotKept(env, &p, waits, next)
	}
	if env.JSON {
		err = env.PrintJSON(p)
	} else {
		_, colours := env.Page()
		_, err = fmt.Fprint(env.Out, terminal.Lines(p.Lines(start, colours)))
	}
	if err != nil {
		return err
	}
	for _, p := range next.Problems {
		env.Note("%s", p.Error())
	}
	if len(configfile.Errors(next)) > 0 {
		err = &exit.Error{Code: exit.BadUsage}
	}
	return err
}

// configInUse returns the configuration that FILE is compared with. While an edit of it waits
// for approval, the running router has the one in use, so that it makes the comparison, and
// done is true. If none runs, the configuration is the edit that waits.
func configInUse(ctx context.Context, env *environment, file string, start bool) (c config.Config, waits *config.Untrusted, done bool, err error) {
	if env.running != nil {
		noteEdit(env)
		return env.running.router.Config(), nil, false, nil
	}
	c, named, err := env.files.Locate()
	if err != nil || named {
		return c, nil, false, err
	}
	waits, _ = errors.AsType[*config.Untrusted](c.Trusted(env.files.Data))
	if waits == nil || !waits.Before {
		return c, nil, false, nil
	}
	path, err := filepath.Abs(file)
	if err != nil || start { // a router starts nothing for another process
		return c, waits, false, err
	}
	asker := *env
	asker.args = []string{"plan", "--json=" + strconv.FormatBool(env.JSON), "--", path}
	done, err = askRunningRouter(ctx, &asker, c, false)
	return c, waits, done, err
}

// sayNotKept says that the text in use is not known. If FILE is the edit that waits, the plan
// gets the names of the entries that differ.
func sayNotKept(env *environment, p *plan.Plan, waits *config.Untrusted, next config.Config) {
	file := waits.Text.Files[0]
	if slices.Equal(next.Files, waits.Text.Files) {
		p.Servers.Added, p.Servers.Removed, p.Servers.Changed = append([]string{}, waits.Added...), append([]string{}, waits.Removed...), append([]string{}, waits.Edited...)
		env.Note("note: the text of %s that you approved is not kept, so only the names of the entries that differ from it are known: %v", file, waits)
		return
	}
	env.Note("note: the text of %s that you approved is not kept, so this is compared with the edit that waits: %v", file, waits)
}

// startUnknown starts the servers whose tools the preview does not know, and adds the
// tools to it.
func startUnknown(ctx context.Context, env *environment, c config.Config, p *adapter.Preview) error {
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
	return env.local.Run(ctx, c, func(ctx context.Context, r *adapter.Parts) error {
		if err := oneshot.AwaitTools(ctx, env.Console, r); err != nil {
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
