package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/builtin"
	"github.com/mcp-metarouter/metarouter/supervisor"
)

func (a *app) check() *cobra.Command {
	return a.jsonFlag(leaf("check", "Read the configuration and say every problem; start nothing",
		`  metarouter check
  metarouter check --config team.mcp.json --json`,
		cobra.NoArgs, func(context.Context, []string) error {
			paths, _, err := config.Find(a.configs)
			if err != nil {
				return usage(err)
			}
			c, err := config.Load(paths...)
			if err != nil {
				return usage(err)
			}
			if a.json {
				if err := a.printJSON(append([]config.Problem{}, c.Problems...)); err != nil {
					return err
				}
			} else {
				for _, p := range c.Problems {
					fmt.Fprintln(a.stdout, p.Error())
				}
				fmt.Fprintf(a.stdout, "%s: %d servers, %d problems\n", strings.Join(c.Files, ", "), len(c.Servers), len(c.Problems))
			}
			if len(c.Problems) > 0 {
				return &exitError{code: exitUsage}
			}
			return nil
		}))
}

func (a *app) trust() *cobra.Command {
	return leaf("trust [FILE]", "Approve a project's .mcp.json, whose commands will be run",
		`  metarouter trust
  metarouter trust ../other/.mcp.json`,
		cobra.MaximumNArgs(1), func(_ context.Context, args []string) error {
			path := ".mcp.json"
			if len(args) == 1 {
				path = args[0]
			}
			c, err := config.Load(path)
			if err != nil {
				return usage(err)
			}
			if err := config.Trust(path, a.data); err != nil {
				return err
			}
			fmt.Fprintf(a.stdout, "%s is trusted as it is now. It runs:\n%s", path, commands(c))
			return nil
		})
}

func (a *app) capabilities() *cobra.Command {
	return a.jsonFlag(leaf("capabilities", "List the capability tags and how many tools bear each",
		`  metarouter capabilities`,
		cobra.NoArgs, func(ctx context.Context, _ []string) error {
			c, err := a.load()
			if err != nil {
				return err
			}
			return a.with(ctx, c, func(ctx context.Context, r *adapter.Router) error {
				a.settle(ctx, r)
				type row struct {
					Name  string `json:"name"`
					Tools int    `json:"tools"`
				}
				rows := []row{}
				for tag, n := range r.Snapshot().Capabilities() {
					rows = append(rows, row{tag, n})
				}
				slices.SortFunc(rows, func(x, y row) int { return strings.Compare(x.Name, y.Name) })
				if a.json {
					return a.printJSON(rows)
				}
				return a.table(func(w *tabwriter.Writer) {
					for _, row := range rows {
						fmt.Fprintf(w, "%s\t%d\n", row.Name, row.Tools)
					}
				})
			})
		}))
}

// table prints what write writes in aligned columns.
func (a *app) table(write func(*tabwriter.Writer)) error {
	w := tabwriter.NewWriter(a.stdout, 0, 4, 2, ' ', 0)
	write(w)
	return w.Flush()
}

func (a *app) builtin() *cobra.Command {
	return leaf("builtin NAME [ARGUMENT…]", "Be a bundled stdio server: "+strings.Join(builtin.Names(), " or "),
		`  metarouter builtin utilities
  metarouter builtin files ./docs`,
		cobra.MinimumNArgs(1), func(ctx context.Context, args []string) error {
			s, err := builtin.New(args[0], args[1:])
			if err != nil {
				return usage(err)
			}
			return s.Run(ctx, &mcp.StdioTransport{})
		})
}

func (a *app) version() *cobra.Command {
	return leaf("version", "Print the version", "  metarouter version", cobra.NoArgs,
		func(context.Context, []string) error {
			_, err := fmt.Fprintln(a.stdout, "metarouter", version)
			return err
		})
}

// guard is how the router starts its guard process, and servers behind a gate;
// people have no use for it.
func (a *app) guard() *cobra.Command {
	cmd := leaf("guard", "Kill servers whose router has died", "", cobra.ArbitraryArgs,
		func(_ context.Context, args []string) error {
			if len(args) > 1 && args[0] == "--" {
				return supervisor.Gate(args[1:])
			}
			supervisor.Guard(os.Stdin)
			return nil
		})
	cmd.Hidden, cmd.DisableFlagParsing = true, true
	return cmd
}
