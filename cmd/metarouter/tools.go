package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/server"
)

func (a *app) tools() *cobra.Command {
	var only string
	var tags []string
	cmd := a.jsonFlag(leaf("tools", "List the tools of all servers",
		`  metarouter tools
  metarouter tools --server playwright -c screenshot`,
		cobra.NoArgs, func(ctx context.Context, _ []string) error {
			c, err := a.load()
			if err != nil {
				return err
			}
			if only != "" {
				if c, err = narrowed(c, only); err != nil {
					return err
				}
			}
			return a.with(ctx, c, func(ctx context.Context, r *adapter.Router) error {
				a.settle(ctx, r)
				a.complain(r)
				snapshot := r.Snapshot()
				tools := snapshot.Tools()
				if len(tags) > 0 {
					tools = snapshot.FindByCapability(tags...)
				}
				return a.printTools(c, snapshot, tools)
			})
		}))
	cmd.Flags().StringVar(&only, "server", "", "only tools of the `server`")
	cmd.Flags().StringArrayVarP(&tags, "capability", "c", nil, "only tools that bear the `tag`; repeatable")
	return cmd
}

// narrowed returns c with the one server.
func narrowed(c config.Config, name string) (config.Config, error) {
	var names []string
	for _, s := range c.Servers {
		if s.Name == name {
			c.Servers = []config.Server{s}
			return c, nil
		}
		names = append(names, s.Name)
	}
	return c, usage(fmt.Errorf("no server is named %q; there are %s", name, strings.Join(names, ", ")))
}

// complain says on stderr which servers have no tools to show, and why.
func (a *app) complain(r *adapter.Router) {
	for _, s := range r.Servers() {
		if s.LastError != "" && s.Tools == 0 {
			fmt.Fprintf(a.stderr, "metarouter: server %q is %s: %s\n", s.Name, s.State, s.LastError)
		}
	}
}

func (a *app) printTools(c config.Config, snapshot *registry.Snapshot, tools []*registry.NormalizedTool) error {
	names := server.NewNames(snapshot.Tools(), c.Router.Names, c.Router.Separator)
	if a.json {
		type row struct {
			ID           string          `json:"id"`
			Server       string          `json:"server"`
			Name         string          `json:"name"`
			ExposedName  string          `json:"exposed_name"`
			Capabilities []string        `json:"capabilities"`
			Description  string          `json:"description"`
			InputSchema  json.RawMessage `json:"input_schema"`
		}
		rows := []row{}
		for _, t := range tools {
			rows = append(rows, row{t.ID, t.Server, t.Name, names.Exposed(t), tagsOf(t), t.Description, t.InputSchema})
		}
		return a.printJSON(rows)
	}
	if len(tools) == 0 {
		fmt.Fprintln(a.stderr, "no tools")
		return nil
	}
	return a.table(func(w *tabwriter.Writer) {
		for _, t := range tools {
			fmt.Fprintf(w, "%s\t%s\t%s\n", t.ID, strings.Join(t.Capabilities, " "), summary(t.Description))
		}
	})
}

func tagsOf(t *registry.NormalizedTool) []string { return append([]string{}, t.Capabilities...) }

// summary returns the first sentence or line of a description, not too long.
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

// resolve finds the tool that a name of any form means, starting servers only if
// the stored catalog does not tell.
func (a *app) resolve(ctx context.Context, c config.Config, r *adapter.Router, name string) (*registry.NormalizedTool, error) {
	find := func() (*registry.NormalizedTool, error) {
		return server.NewNames(r.Snapshot().Tools(), c.Router.Names, c.Router.Separator).Resolve(name)
	}
	if t, err := find(); err == nil {
		return t, nil
	}
	a.settle(ctx, r)
	t, err := find()
	if err != nil {
		a.complain(r)
		return nil, usage(err)
	}
	return t, nil
}

// forTool returns c with only the server that a name of the form server:tool
// means, so that no other is started.
func forTool(c config.Config, name string) config.Config {
	i := slices.IndexFunc(c.Servers, func(s config.Server) bool { return strings.HasPrefix(name, s.Name+":") })
	if i >= 0 {
		c.Servers = c.Servers[i : i+1]
	}
	return c
}
