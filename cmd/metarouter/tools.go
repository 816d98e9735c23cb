package main

import (
	"context"
	"encoding/json"
	"errors"
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
			c, err := a.load(ctx)
			if err == nil && only != "" {
				_, err = entryOf(c, only)
			}
			if err != nil {
				return err
			}
			return a.with(ctx, c, func(ctx context.Context, r *adapter.Router) error {
				if only != "" { // what it has now, not what is stored
					if err := a.await(ctx, r, only); err != nil {
						return err
					}
				} else if err := a.settle(ctx, r); err != nil {
					return err
				}
				snapshot := r.Snapshot()
				tools := slices.Clone(snapshot.Tools())
				if len(tags) > 0 {
					tools = slices.Clone(snapshot.FindByCapability(tags...))
				}
				if only != "" {
					tools = slices.DeleteFunc(tools, func(t *registry.NormalizedTool) bool { return t.Server != only })
				}
				return a.printTools(c, snapshot, tools)
			})
		}))
	cmd.Flags().StringVar(&only, "server", "", "only tools of the `server`")
	cmd.Flags().StringArrayVarP(&tags, "capability", "c", nil, "only tools that bear the `tag`; repeatable")
	return cmd
}

// entryOf returns the entry of the named server.
func entryOf(c config.Config, name string) (config.Server, error) {
	var names []string
	for _, s := range c.Servers {
		if s.Name == name {
			return s, nil
		}
		names = append(names, s.Name)
	}
	return config.Server{}, usage(fmt.Errorf("no server is named %q; there are %s", name, strings.Join(names, ", ")))
}

// await starts the server and waits for it.
func (a *app) await(ctx context.Context, r *adapter.Router, name string) (err error) {
	a.waiting(r, func() { err = r.Await(ctx, name) })
	return err
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

// resolve finds the tool that a name of any form means, and starts the servers
// that may have it only if the stored catalog does not tell.
func (a *app) resolve(ctx context.Context, c config.Config, r *adapter.Router, name string) (t *registry.NormalizedTool, err error) {
	names := func() *server.ToolNames {
		return server.NewNames(r.Snapshot().Tools(), c.Router.Names, c.Router.Separator)
	}
	t, err = server.Resolve(ctx, r, name, c.Router.Separator, names, func() bool { return a.settle(ctx, r) == nil })
	if _, ok := errors.AsType[*server.NameError](err); ok && ctx.Err() == nil {
		return nil, usage(err)
	}
	return t, err
}
