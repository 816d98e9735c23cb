package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/configfile"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/exit"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/oneshot"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/terminal"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/changes"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/server"
)

// toolsOptions are the flags of tools.
type toolsOptions struct {
	server       string
	named        string // a server, or a tool to describe; "" for all tools
	capabilities []string
	mustHave     bool // an unknown tag in capabilities is an error
	seen         bool
}

func newToolsCommand(env *environment) *cobra.Command {
	var o toolsOptions
	cmd := newCommand("tools [SERVER | TOOL]", "List the tools of all servers or of one, or describe one tool",
		`  metarouter tools
  metarouter tools playwright -c screenshot
  metarouter tools playwright:browser_navigate`,
		arguments(0, 1, "name one server or one tool at most"), func(ctx context.Context, args []string) error {
			if len(args) > 0 {
				o.named = args[0]
			}
			return runTools(ctx, env, o)
		})
	addJSONFlag(cmd, env.Console)
	addCapabilityFlag(cmd, &o.capabilities, "List only tools with this capability `tag`; 'metarouter capabilities' lists the tags. Repeat the flag to list tools that have all of several tags. By default all tools are listed.")
	cmd.Flags().StringVar(&o.server, "server", "", "List only the tools of this `server`, which is started if it does not run. By default the tools of all servers are listed.")
	cmd.Flags().BoolVar(&o.seen, "seen", false, "List how the definitions of tools changed since you last looked, and be warned of these changes no more. Changed hints, such as readOnlyHint, count only once 'metarouter trust --hints SERVER' has confirmed them. It starts no server. By default the tools are listed.")
	addProfileFlag(env, cmd)
	cmd.MarkFlagsMutuallyExclusive("seen", "capability")
	cmd.MarkFlagsMutuallyExclusive("seen", "profile")
	return cmd
}

func runTools(ctx context.Context, env *environment, o toolsOptions) error {
	c, done, err := loadOrAsk(ctx, env, false)
	if err != nil || done {
		return err
	}
	if err := isInWaitingEdit(env, cmp.Or(o.server, o.named)); err != nil {
		return err
	}
	if o.seen {
		if o, err = o.resolveServer(c); err != nil {
			return err
		}
		return withRouter(ctx, env, c, func(_ context.Context, r *adapter.Parts) error { return seeChanges(env, c, o, r) })
	}
	return withScope(ctx, env, c, withRouter, func(ctx context.Context, r *adapter.Scope, c config.Config) error {
		return listTools(ctx, env, r, c, o)
	})
}

// listTools lists the tools that the options ask for, or describes one.
func listTools(ctx context.Context, env *environment, r *adapter.Scope, c config.Config, o toolsOptions) error {
	o, err := o.resolveServer(c)
	if err != nil {
		return err
	}
	if o.named != "" {
		t, err := resolveTool(ctx, env, c, r, o.named)
		if err != nil {
			return notServerNorTool(o.named, err)
		}
		if !env.JSON {
			return describeTool(env, t)
		}
		return printTools(env, c, o, r.Snapshot(), []*registry.NormalizedTool{t})
	}
	if o.server != "" { // its tools as they are now, not as they were stored
		err = oneshot.AwaitServer(ctx, env.Console, r, o.server)
	} else {
		err = oneshot.AwaitTools(ctx, env.Console, r)
	}
	if err != nil {
		return err
	}
	snapshot := r.Snapshot()
	tools := slices.Clone(snapshot.Tools())
	if o.mustHave {
		if err := findTags(snapshot, o.capabilities); err != nil {
			return err
		}
	}
	if len(o.capabilities) > 0 {
		tools = slices.Clone(snapshot.FindByCapability(o.capabilities...))
	}
	if o.server != "" {
		tools = slices.DeleteFunc(tools, func(t *registry.NormalizedTool) bool { return t.Server != o.server })
	}
	return printTools(env, c, o, snapshot, tools)
}

// resolveServer returns the options with the server that they name. If named is none, it
// stays: it is the name of a tool.
func (o toolsOptions) resolveServer(c config.Config) (toolsOptions, error) {
	if o.server != "" {
		if o.named != "" && o.named != o.server {
			return o, exit.Usage(fmt.Errorf("%q and --server %s are two things to list; name one", o.named, o.server))
		}
		_, err := entriesOf(c, o.server)
		o.named = ""
		return o, err
	}
	if o.named == "" {
		return o, nil
	}
	_, err := entriesOf(c, o.named)
	if err == nil {
		o.server, o.named = o.named, ""
		return o, nil
	}
	if _, misspelled := config.Similar(o.named, configfile.ServerNames(c)); misspelled || o.seen || len(o.capabilities) > 0 {
		return o, err
	}
	return o, nil
}

// notServerNorTool returns the error of resolveTool, for a name that may be a server's too.
func notServerNorTool(name string, err error) error {
	if e, ok := errors.AsType[*server.NameError](err); ok && len(e.Ambiguous)+len(e.Nearest) == 0 {
		return exit.Usage(fmt.Errorf("no server and no tool is named %q; 'metarouter servers' lists the servers, 'metarouter tools' lists all tools", name))
	}
	return err
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
	if env.JSON {
		return env.PrintJSON(tools)
	}
	if len(tools) == 0 {
		env.Note("no tool changed since you last looked")
	}
	for _, t := range tools {
		env.Say("%s", t.ID)
		if len(t.Changes) == 0 {
			env.Say("  - it changed; its definition before was not kept, since too many changed")
		}
		for _, change := range t.Changes {
			env.SayBroken("  - ", change)
		}
	}
	return nil
}

// entriesOf returns the entry of the server, or no entry if the server may be one of another node.
func entriesOf(c config.Config, name string) ([]config.Server, error) {
	entry, err := configfile.Server(c, name)
	if err == nil {
		return []config.Server{entry}, nil
	}
	if configfile.MayBeElsewhere(c, name) {
		return nil, nil
	}
	return nil, err
}

// findTags returns an error if no tool has one of the tags.
func findTags(s *registry.Snapshot, tags []string) error {
	known := s.Capabilities()
	for _, tag := range tags {
		if known[tag] == 0 {
			return exit.Usage(configfile.UnknownName("tag", tag, slices.Sorted(maps.Keys(known))))
		}
	}
	return nil
}

func printTools(env *environment, c config.Config, o toolsOptions, snapshot *registry.Snapshot, tools []*registry.NormalizedTool) error {
	names := server.NewNames(snapshot.Tools(), c.Router.Names, c.Router.Separator, c.Router.Gateway.Prefix)
	if env.JSON {
		type row struct {
			ID           string          `json:"id"`
			Tool         string          `json:"tool"` // the same
			Server       string          `json:"server"`
			Name         string          `json:"name"`
			ExposedName  string          `json:"exposed_name"`
			Capabilities []string        `json:"capabilities"`
			Hints        registry.Hints  `json:"hints"`           // what the server declares
			Doubt        string          `json:"doubt,omitempty"` // why that is not believed
			Description  string          `json:"description"`
			InputSchema  json.RawMessage `json:"input_schema"`
		}
		rows := []row{}
		for _, t := range tools {
			rows = append(rows, row{t.ID, t.ID, t.Server, t.Name, names.Exposed(t), tagsOf(t), t.Hints, t.Doubt, t.Description, t.InputSchema})
		}
		return env.PrintJSON(rows)
	}
	if len(tools) == 0 {
		switch {
		case len(o.capabilities) == 1:
			env.Note("no tool has the capability %q; 'metarouter capabilities' lists the tags", o.capabilities[0])
		case len(o.capabilities) > 1:
			env.Note("no tool has all the capabilities %s; 'metarouter capabilities' lists the tags", strings.Join(o.capabilities, ", "))
		default:
			env.Note("no tools; 'metarouter servers' shows whether the servers work, and in a cluster, 'metarouter doctor' what it lacks")
		}
		return nil
	}
	rows := make([]terminal.Row, len(tools))
	for i, t := range tools {
		rows[i] = toolCells(t.ID, t.Capabilities, t.Description)
	}
	return env.PrintRows(rows, nil)
}

// toolCells returns the cells that tables have for a tool.
func toolCells(name string, capabilities []string, description string) terminal.Row {
	return terminal.Row{{Text: name}, {Text: strings.Join(capabilities, " "), Spare: true}, {Text: summary(description), Colour: terminal.Faint}}
}

func tagsOf(t *registry.NormalizedTool) []string { return append([]string{}, t.Capabilities...) }

// summary returns the first sentence or line of a description, cut after 60 characters.
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
func resolveTool(ctx context.Context, env *environment, c config.Config, r *adapter.Scope, name string) (t *registry.NormalizedTool, err error) {
	names := func() *server.ToolNames {
		return server.NewNames(r.Snapshot().Tools(), c.Router.Names, c.Router.Separator, c.Router.Gateway.Prefix)
	}
	t, err = server.Resolve(ctx, r, name, names, func() bool { return oneshot.AwaitTools(ctx, env.Console, r) == nil })
	if err, ok := errors.AsType[*server.NameError](err); ok && ctx.Err() == nil {
		return nil, exit.Usage(unknownTool(r.Snapshot(), c, name, err))
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
	unknown, advice := error(err), []string{"'metarouter tools' lists all tools", "'metarouter search WORDS' finds some"}
	if server, ok := noServer(c, name); ok {
		unknown = fmt.Errorf("no server is named %q: %w", server, err)
	} else {
		advice = append(enablings(c), advice...)
	}
	end := ";"
	if len(err.Nearest) > 0 {
		end = "" // it ends with a question mark
	}
	return fmt.Errorf("%w%s %s", unknown, end, strings.Join(advice, ", "))
}

// enablings says how to enable the first disabled servers, which may have any tool.
func enablings(c config.Config) (advice []string) {
	for _, entry := range c.Servers {
		if entry.Disabled && len(advice) < maxNearest {
			command := "enable " + entry.Name + " --write"
			if entry.ByHand {
				command = "restart " + entry.Name
			}
			advice = append(advice, fmt.Sprintf("'metarouter %s' enables server %q, which is disabled and may have it", command, entry.Name))
		}
	}
	return advice
}

// noServer returns what stands before the colon of a name, if no server has that name.
func noServer(c config.Config, name string) (server string, ok bool) {
	server, tool, ok := strings.Cut(name, ":")
	if !ok || server == "" || tool == "" || strings.HasPrefix(tool, "/") || slices.Contains(configfile.ServerNames(c), server) {
		return "", false
	}
	if prefix := c.Router.Gateway.Prefix; prefix != "" && strings.HasPrefix(server, prefix) {
		return "", false
	}
	return server, true
}
