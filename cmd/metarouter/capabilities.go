package main

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mcp-metarouter/metarouter/adapter"
)

func newCapabilitiesCommand(env *environment) *cobra.Command {
	cmd := newCommand("capabilities", "List the capability tags and how many tools have each",
		`  metarouter capabilities
  metarouter capabilities --json`,
		noArguments, func(ctx context.Context, _ []string) error { return runCapabilities(ctx, env) })
	addJSONFlag(env, cmd)
	return cmd
}

func runCapabilities(ctx context.Context, env *environment) error {
	c, err := loadConfig(ctx, env)
	if err != nil {
		return err
	}
	return withRouter(ctx, env, c, func(ctx context.Context, r *adapter.Parts) error {
		if err := awaitTools(ctx, env, r); err != nil {
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
		if env.json {
			return env.printJSON(rows)
		}
		return env.printTable(func(t table) {
			for _, row := range rows {
				t.row(row.Name, row.Tools)
			}
		})
	})
}
