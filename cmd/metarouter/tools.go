package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/terminal"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/changes"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/server"
)

// toolsOptions are the flags of tools.
type toolsOptions struct {
	server       string
	capabilities []string
	seen         bool
}

func newToolsCommand(env *environment) *cobra.Command {
	var o toolsOptions
	cmd := newCommand("tools", "List the tools of all servers",
		`  metarouter tools
  metarouter tools --server playwright -c screenshot
  metarouter tools --seen`,
		noArguments, func(ctx context.Context, _ []string) error { return runTools(ctx, env, o) })
	addJSONFlag(env, cmd)
	addCapabilityFlag(cmd, &o.capabilities, "List only tools with this capability `tag`; 'metarouter capabilities' lists the tags. Repeat the flag to list tools that have all of several tags. By default all tools are listed.")
	cmd.Flags().StringVar(&o.server, "server", "", "List only the tools of this `server`, which is started if it does not run. By default the tools of all servers are listed.")
	cmd.Flags().BoolVar(&o.seen, "seen", false, "List how the definitions of tools changed since you last looked, and be warned of these changes no more. It starts no server. By default the tools are listed.")
	cmd.MarkFlagsMutuallyExclusive("seen", "capability")
	return cmd
}

func runTools(ctx context.Context, env *environment, o toolsOptions) error {
	c, err := loadConfig(ctx, env)
	if err == nil && o.server != "" {
		_, err = findEntry(c, o.server)
	}
	if err != nil {
		return err
	}
	return withRouter(ctx, env, c, func(ctx context.Context, r *adapter.Parts) error {
		if o.seen {
			return seeChanges(env, c, o, r)
		}
		if o.server != "" { // its tools as they are now, not as they were stored
			err = awaitServer(ctx, env, r, o.server)
		} else {
			err = awaitTools(ctx, env, r)
		}
		if err != nil {
			return err
		}
		snapshot := r.Snapshot()
		tools := slices.Clone(snapshot.Tools())
		if len(o.capabilities) > 0 {
			tools = slices.Clone(snapshot.FindByCapability(o.capabilities...))
		}
		if o.server != "" {
			tools = slices.DeleteFunc(tools, func(t *registry.NormalizedTool) bool { return t.Server != o.server })
		}
		return printTools(env, c, o, snapshot, tools)
	})
}

// A changedTool is a tool that changed since a person last looked.
type changedTool struct {
	ID      string   `json:"id"`
	Changes []string `json:"changes"` // empty if the definition before was not kept
}

// seeChanges prints how the definitions of tools changed since a person last looked, and
// notes that they were seen.
func seeChanges(env *environment, c config.Config, o toolsOptions, r *adapter.Parts) error {
	const most = 2000 // characters of a member, before and after
	rows := []changedTool{}
	snapshot := r.Snapshot()
	var of []string // servers with changes
	for _, entry := range c.Servers {
		if o.server != "" && entry.Name != o.server {
			continue
		}
		l := snapshot.Offer(entry.Name)
		if len(l.LastSeen) > 0 {
			of = append(of, entry.Name)
		}
		for _, t := range l.Tools {
			if seen, changed := l.LastSeen[t.ServerName()]; changed {
				rows = append(rows, changedTool{t.ID, append([]string{}, changes.Diff(seen, t.Definition, most)...)})
			}
		}
	}
	if err := printChanges(env, rows); err != nil {
		return err
	}
	for _, name := range of {
		if err := r.Seen(name); err != nil {
			return err
		}
	}
	return nil
}

func printChanges(env *environment, tools []changedTool) error {
	if env.json {
		return env.printJSON(tools)
	}
	if len(tools) == 0 {
		env.note("no tool changed since you last looked")
	}
	columns, _ := env.page()
	for _, t := range tools {
		env.say("%s", t.ID)
		if len(t.Changes) == 0 {
			env.say("  - it changed; its definition before was not kept, since too many changed")
		}
		for _, change := range t.Changes {
			fmt.Fprint(env.stdout, terminal.Lines(terminal.Hang("  - ", change, columns)))
		}
	}
	return nil
}

// findEntry returns the entry of the named server.
func findEntry(c config.Config, name string) (config.Server, error) {
	var names []string
	for _, s := range c.Servers {
		if s.Name == name {
			return s, nil
		}
		names = append(names, s.Name)
	}
	if len(names) == 0 {
		return config.Server{}, usage(fmt.Errorf("no server is named %q; the configuration has no server", name))
	}
	return config.Server{}, usage(fmt.Errorf("no server is named %q; the servers are %s", name, strings.Join(names, ", ")))
}

func printTools(env *environment, c config.Config, o toolsOptions, snapshot *registry.Snapshot, tools []*registry.NormalizedTool) error {
	names := server.NewNames(snapshot.Tools(), c.Router.Names, c.Router.Separator)
	if env.json {
		type row struct {
			ID           string          `json:"id"`
			Tool         string          `json:"tool"` // the same
			Server       string          `json:"server"`
			Name         string          `json:"name"`
			ExposedName  string          `json:"exposed_name"`
			Capabilities []string        `json:"capabilities"`
			Description  string          `json:"description"`
			InputSchema  json.RawMessage `json:"input_schema"`
		}
		rows := []row{}
		for _, t := range tools {
			rows = append(rows, row{t.ID, t.ID, t.Server, t.Name, names.Exposed(t), tagsOf(t), t.Description, t.InputSchema})
		}
		return env.printJSON(rows)
	}
	if len(tools) == 0 {
		switch {
		case len(o.capabilities) == 1:
			env.note("no tool has the capability %q; 'metarouter capabilities' lists the tags", o.capabilities[0])
		case len(o.capabilities) > 1:
			env.note("no tool has all the capabilities %s; 'metarouter capabilities' lists the tags", strings.Join(o.capabilities, ", "))
		default:
			env.note("no tools; 'metarouter servers' shows whether the servers work")
		}
		return nil
	}
	return env.printTable(func(rows table) {
		for _, t := range tools {
			rows.row(t.ID, strings.Join(t.Capabilities, " "), summary(t.Description))
		}
	})
}

func tagsOf(t *registry.NormalizedTool) []string { return append([]string{}, t.Capabilities...) }

// printImported returns the first sentence or line of a description, cut after 60 characters.
func summary(description string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(description), "\n")
	if i := strings.Index(line, ". "); i > 0 {
		line = line[:i+1]
	}
	if runes := []rune(line); len(runes) > 60 {
		line = string(runes[:59]) + "…"
	}
	return line
}

// resolveTool finds the tool that a name of any form means. It starts the servers that
// may have the tool only if the stored catalog does not know the name.
func resolveTool(ctx context.Context, env *environment, c config.Config, r *adapter.Parts, name string) (t *registry.NormalizedTool, err error) {
	names := func() *server.ToolNames {
		return server.NewNames(r.Snapshot().Tools(), c.Router.Names, c.Router.Separator)
	}
	t, err = server.Resolve(ctx, r, name, c.Router.Separator, names, func() bool { return awaitTools(ctx, env, r) == nil })
	if err, ok := errors.AsType[*server.NameError](err); ok && ctx.Err() == nil {
		return nil, usage(unknownTool(r.Snapshot(), c, name, err))
	}
	return t, err
}

// unknownTool adds to a [server.NameError] what to do about it.
func unknownTool(s *registry.Snapshot, c config.Config, name string, err *server.NameError) error {
	for _, entry := range c.Servers {
		for _, d := range s.Offer(entry.Name).Dropped {
			if id := registry.ID(entry.Name, d.Name); d.Kind == registry.KindTool && (name == d.Name || name == id) {
				return fmt.Errorf("%s is not offered; 'metarouter why %s' says why", id, id)
			}
		}
	}
	if len(err.Ambiguous) > 0 {
		return err
	}
	return fmt.Errorf("%w; 'metarouter tools' lists all tools, 'metarouter search WORDS' finds some", err)
}
