package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/oneshot"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/terminal"
	"github.com/mcp-metarouter/metarouter/config"
)

func newCapabilitiesCommand(env *environment) *cobra.Command {
	cmd := newCommand("capabilities [TAG]", "List the capability tags, or the tools that have one of them",
		`  metarouter capabilities
  metarouter capabilities browser`,
		arguments(0, 1, "name one tag at most"), func(ctx context.Context, args []string) error {
			if len(args) > 0 {
				return runTools(ctx, env, toolsOptions{capabilities: args, mustHave: true})
			}
			return runCapabilities(ctx, env)
		})
	addJSONFlag(cmd, env.Console)
	addProfileFlag(env, cmd)
	return cmd
}

func runCapabilities(ctx context.Context, env *environment) error {
	c, done, err := loadOrAsk(ctx, env, false)
	if err != nil || done {
		return err
	}
	return withScope(ctx, env, c, withRouter, func(ctx context.Context, r *adapter.Scope, _ config.Config) error {
		if err := oneshot.AwaitTools(ctx, env.Console, r); err != nil {
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
		if env.JSON {
			return env.PrintJSON(rows)
		}
		if len(rows) == 0 {
			env.Note("no tool has a tag; 'metarouter servers' shows whether the servers work")
			return nil
		}
		table := []terminal.Row{{{Text: "TAG", Colour: terminal.Bold}, {Text: "TOOLS", Colour: terminal.Bold, Right: true}}}
		for _, row := range rows {
			table = append(table, terminal.Row{{Text: row.Name}, {Text: fmt.Sprint(row.Tools), Right: true}})
		}
		return env.PrintRows(table, nil)
	})
}
