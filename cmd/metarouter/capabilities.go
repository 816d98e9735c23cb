package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/mcp-metarouter/metarouter/adapter"
)

func (a *app) capabilities() *cobra.Command {
	return a.jsonFlag(leaf("capabilities", "List the capability tags and how many tools bear each",
		`  metarouter capabilities`,
		cobra.NoArgs, func(ctx context.Context, _ []string) error {
			c, err := a.load(ctx)
			if err != nil {
				return err
			}
			return a.with(ctx, c, func(ctx context.Context, r *adapter.Router) error {
				if err := a.settle(ctx, r); err != nil {
					return err
				}
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
