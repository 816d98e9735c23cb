package main

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/secret"
	"github.com/mcp-metarouter/metarouter/internal/terminal"
	"github.com/mcp-metarouter/metarouter/registry"
)

// plan compares a file with the configuration in use. What tools there are it knows
// from the stored catalog, which a running router keeps up to date.
//
// Without --start nothing runs, so neither file has to be trusted. With it, FILE's new
// servers do: a file that is named on the command line is used, as with --config.
func (a *app) plan() *cobra.Command {
	var start bool
	cmd := a.jsonFlag(leaf("plan FILE", "Say what FILE would change against the configuration in use",
		`  metarouter plan new.mcp.json
  metarouter plan new.mcp.json --start --json`,
		cobra.ExactArgs(1), func(ctx context.Context, args []string) error {
			now, _, err := a.locate()
			if err != nil {
				return err
			}
			next, err := config.Load(args[0])
			if err != nil {
				return usage(err)
			}
			old := adapter.NewPreview(now, nil, a.data)
			new := adapter.NewPreview(next, &now, a.data)
			if start {
				if err := a.startUnknown(ctx, next, &new); err != nil {
					return err
				}
			}
			p := compare(sideOf(now, old), sideOf(next, new))
			if a.json {
				err = a.printJSON(p)
			} else {
				err = a.printPlan(p, start)
			}
			if err == nil && len(next.Problems) > 0 {
				for _, p := range next.Problems {
					fmt.Fprintln(a.stderr, p.Error())
				}
				err = &exitError{code: exitUsage}
			}
			return err
		}))
	cmd.Flags().BoolVar(&start, "start", false, "start the servers of FILE whose tools are not known, to learn them")
	return cmd
}

// startUnknown starts the servers of which it is not known what they offer, and adds
// that.
func (a *app) startUnknown(ctx context.Context, c config.Config, p *adapter.Preview) error {
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
	return a.alone(ctx, c, func(ctx context.Context, r *adapter.Router) error {
		if err := a.settle(ctx, r); err != nil {
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

// mostLines is how many lines of tools are printed.
const mostLines = 40

// printPlan prints the plan as a diff.
func (a *app) printPlan(p planned, started bool) error {
	_, colour := a.paper()
	var lines []string
	add := func(sign, text string) {
		c := map[string]terminal.Colour{"+": terminal.Green, "-": terminal.Red, "~": terminal.Yellow}[sign]
		lines = append(lines, "  "+terminal.Paint(sign+" "+terminal.Clean(text), c, colour))
	}
	section := func(title string, from int) {
		if len(lines) > from {
			lines = slices.Insert(lines, from, title)
		}
	}
	for _, name := range p.Servers.Added {
		add("+", name+"  "+strings.Join(p.Details[name], ", "))
	}
	for _, name := range p.Servers.Removed {
		add("-", name)
	}
	for _, name := range p.Servers.Changed {
		add("~", name+"  "+strings.Join(p.Details[name], ", "))
	}
	section("servers", 0)
	from := len(lines)
	for _, id := range p.Tools.Added {
		if slices.Contains(p.Named, id) {
			add("+", id+"  (what it costs is unknown until it is started; use --start)")
			continue
		}
		add("+", id+p.as(id, p.after))
	}
	for _, id := range p.Tools.Removed {
		add("-", id+p.as(id, p.before))
	}
	for _, r := range p.Tools.Renamed {
		add("~", fmt.Sprintf("%s  %s → %s", r.ID, r.From, r.To))
	}
	if more := len(lines) - from - mostLines; more > 0 {
		lines = append(lines[:from+mostLines], fmt.Sprintf("  … and %d more (--json has them all)", more))
	}
	section("tools", from)
	from = len(lines)
	for _, change := range p.Settings {
		add("~", change)
	}
	section("settings, in effect from the router's next start", from)
	if len(lines) == 0 {
		lines = append(lines, "nothing would change")
	}
	hint := "tools unknown until started; use --start"
	if started {
		hint = "tools unknown, since they do not start; 'metarouter doctor --config FILE' says why"
	}
	if len(p.Unknown) > 0 {
		lines = append(lines, terminal.Clean("  ? "+strings.Join(p.Unknown, ", "))+": "+hint)
	}
	least := ""
	if len(p.Unknown) > 0 {
		least = " or more"
	}
	lines = append(lines, fmt.Sprintf("tokens of the tool list: %d → %d%s%s", p.Tokens.Before, p.Tokens.After, least, p.mode))
	_, err := fmt.Fprint(a.stdout, terminal.Lines(lines))
	return err
}

// as says under which name clients see a tool, if that is not plain.
func (p planned) as(id string, names map[string]string) string {
	if exposed := names[id]; exposed != strings.Replace(id, ":", "__", 1) {
		return "  as " + exposed
	}
	return ""
}

// runs says what an entry starts or reaches, without what may be a secret.
func runs(s config.Server) string {
	if exe, err := os.Executable(); err == nil && s.Command == exe {
		return "metarouter"
	}
	if s.Transport == config.Stdio {
		return filepath.Base(strings.Join(secret.Words(strings.Fields(s.Command), "…"), " ")) // some write arguments there
	}
	if u, err := url.Parse(s.URL); err == nil {
		return u.Host
	}
	return string(s.Transport)
}

// differences returns the keys of an entry in which two differ, with both values where
// these can't be secrets.
func differences(a, b config.Server) (all []string) {
	differ := func(differs bool, what string) {
		if differs {
			all = append(all, what)
		}
	}
	plain := func(key string, a, b any) {
		differ(a != b, fmt.Sprintf("%s %v → %v", key, a, b))
	}
	plain("type", a.Transport, b.Transport)
	differ(a.Command != b.Command, "command")
	differ(!slices.Equal(a.Args, b.Args), "args")
	differ(a.URL != b.URL, "url")
	for _, d := range byName(a.Env, b.Env) {
		all = append(all, "env "+d)
	}
	for _, d := range byName(a.Headers, b.Headers) {
		all = append(all, "header "+d)
	}
	differ(a.EnvFile != b.EnvFile, "envFile")
	differ(a.Cwd != b.Cwd, "cwd")
	differ(!slices.Equal(a.InheritEnv, b.InheritEnv), "inheritEnv")
	plain("disabled", a.Disabled, b.Disabled)
	plain("lazy", a.Lazy, b.Lazy)
	plain("timeout", a.Timeout, b.Timeout)
	plain("startTimeout", a.StartTimeout, b.StartTimeout)
	plain("idleTimeout", a.IdleTimeout, b.IdleTimeout)
	plain("maxConcurrent", a.MaxConcurrent, b.MaxConcurrent)
	plain("group", a.Group, b.Group)
	plain("priority", a.Priority, b.Priority)
	plain("validate", a.Validate, b.Validate)
	plain("retry", a.Retry, b.Retry)
	plain("maxResultTokens", a.MaxResultTokens, b.MaxResultTokens)
	plain("cache", a.Cache, b.Cache)
	differ(!slices.Equal(a.Capabilities, b.Capabilities), "capabilities")
	differ(!slices.Equal(a.Tools.Allow, b.Tools.Allow), "tools.allow")
	differ(!slices.Equal(a.Tools.Deny, b.Tools.Deny), "tools.deny")
	differ(!maps.Equal(a.Tools.Rename, b.Tools.Rename), "tools.rename")
	differ(!maps.Equal(a.ToolTimeouts, b.ToolTimeouts), "tools.timeout")
	differ(!maps.Equal(a.ToolResultTokens, b.ToolResultTokens), "tools.maxResultTokens")
	differ(a.Misconfigured == "" && b.Misconfigured != "", "can't be started any more")
	differ(a.Misconfigured != "" && b.Misconfigured == "", "can be started now")
	if len(all) == 0 && !a.Equal(b) {
		all = append(all, "other keys")
	}
	return all
}

// byName names the variables in which two sets differ, and never a value.
func byName(a, b map[string]string) (all []string) {
	for _, name := range slices.Sorted(maps.Keys(merged(a, b))) {
		before, had := a[name]
		after, has := b[name]
		switch {
		case !had:
			all = append(all, "+"+name)
		case !has:
			all = append(all, "-"+name)
		case before != after:
			all = append(all, "~"+name)
		}
	}
	return all
}

func merged(a, b map[string]string) map[string]string {
	both := maps.Clone(a)
	if both == nil {
		both = make(map[string]string)
	}
	maps.Copy(both, b)
	return both
}
