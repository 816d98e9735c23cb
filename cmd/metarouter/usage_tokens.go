package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/telemetry"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/terminal"
	"github.com/mcp-metarouter/metarouter/registry"
)

// A tokenUsage is what usage --tokens prints as JSON.
type tokenUsage struct {
	Servers []definedTokens  `json:"servers"` // what the definitions of their tools cost in a list
	Clients []telemetry.Cost `json:"clients"` // what clients have cost since the router's start
}

// definedTokens is what a list of all tools of a server costs.
type definedTokens struct {
	Server      string `json:"server"`
	Tools       int    `json:"tools"`
	Definitions int    `json:"definitions"` // tokens
}

// runUsageOfTokens prints what the clients of the running router have cost.
func runUsageOfTokens(ctx context.Context, env *environment) error {
	c, done, err := loadOrAsk(ctx, env, false)
	if err != nil || done {
		return err
	}
	if err := checkProfile(c, env.profile); err != nil {
		return err
	}
	if env.running == nil {
		if done, err := askRunningRouter(ctx, env, c, false); done {
			return err
		}
		return errors.New("no router runs with this configuration, and only a running one knows what its clients cost; start it with 'metarouter serve', or let a client start it")
	}
	scope := namedScope(env.running.router, env.profile)
	used := tokenUsage{Servers: definitionsOf(scope), Clients: []telemetry.Cost{}}
	for _, e := range env.running.costs(env.running.router) {
		if env.profile == nil || *env.profile == "" || e.Profile == *env.profile {
			used.Clients = append(used.Clients, e)
		}
	}
	if env.JSON {
		return env.PrintJSON(used)
	}
	return printTokens(env, used)
}

// definitionsOf returns what the definitions of each server's tools cost, the dearest first.
func definitionsOf(scope *adapter.Scope) []definedTokens {
	rows := []definedTokens{}
	snapshot := scope.Snapshot()
	for _, s := range scope.Servers() {
		tools := snapshot.Server(s.Name)
		rows = append(rows, definedTokens{s.Name, len(tools), registry.Tokens(tools)})
	}
	slices.SortFunc(rows, func(a, b definedTokens) int {
		return cmp.Or(cmp.Compare(b.Definitions, a.Definitions), cmp.Compare(a.Server, b.Server))
	})
	return rows
}

func printTokens(env *environment, used tokenUsage) error {
	title := func(text string, right bool) terminal.Cell {
		return terminal.Cell{Text: text, Colour: terminal.Bold, Right: right}
	}
	number := func(n int64) terminal.Cell { return terminal.Cell{Text: fmt.Sprint(n), Right: true} }
	rows := []terminal.Row{{title("SERVER", false), title("TOOLS", true), title("TOKENS OF DEFINITIONS", true)}}
	for _, s := range used.Servers {
		rows = append(rows, terminal.Row{{Text: s.Server}, number(int64(s.Tools)), number(int64(s.Definitions))})
	}
	if err := env.PrintRows(rows, nil); err != nil {
		return err
	}
	if len(used.Clients) == 0 {
		env.Note("no client has listed or called a tool since the router's start")
		return nil
	}
	fmt.Fprintln(env.Out)
	rows = []terminal.Row{{title("CLIENT", false), title("PROFILE", false), title("SERVER", false), title("CALLS", true), title("RESULTS", true), title("LISTS", true)}}
	for _, e := range used.Clients {
		rows = append(rows, terminal.Row{
			{Text: cmp.Or(e.Client, "–")}, {Text: cmp.Or(e.Profile, "–")}, {Text: cmp.Or(e.Server, "–")}, number(e.Calls), number(e.Results), number(e.Definitions),
		})
	}
	return env.PrintRows(rows, nil)
}
