package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/admin"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/console"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/terminal"
	"github.com/mcp-metarouter/metarouter/config"
)

// Usage prints the tools and tasks that were learned from calls.
func Usage(ctx context.Context, e *Env) error {
	e.LogLevel = cmp.Or(e.LogLevel, "warn")
	return show(ctx, e, need{}, "/dashboard/usage", e.parameters(), func(used admin.Usage) error {
		if e.JSON {
			return e.PrintJSON(used.Tools)
		}
		var table []terminal.Row
		for _, t := range used.Tools {
			table = append(table, terminal.Row{{Text: t.Tool}, {Text: console.Counted(t.Calls, "call")}, {Text: fmt.Sprintf("%d failed", t.Failures)}})
			for _, q := range t.Learned {
				table = append(table, terminal.Row{{Text: "  " + q.Query}, {Text: votes(q.Votes)}, {Text: q.Last.Format(time.DateOnly)}, {Text: strings.Join(q.Words, " "), Colour: terminal.Faint}})
			}
		}
		return e.PrintRows(table, nil)
	})
}

func votes(n float64) string {
	switch {
	case n > 0:
		return fmt.Sprintf("%.1f votes for it", n)
	case n < 0:
		return fmt.Sprintf("%.1f votes against it", -n)
	}
	return "no votes yet"
}

// ClearUsage forgets everything that was learned from calls.
func ClearUsage(ctx context.Context, e *Env) error {
	e.LogLevel = cmp.Or(e.LogLevel, "warn")
	return e.ask(ctx, need{}, func(ctx context.Context, c *apiClient) error {
		if err := c.post(ctx, "/dashboard/usage/clear", nil, struct{}{}, &admin.Usage{}); err != nil {
			return err
		}
		e.Note("what was learned is forgotten")
		return nil
	})
}

// Tokens prints the tokens that the clients of the running router have cost.
func Tokens(ctx context.Context, e *Env) error {
	alone := func(*config.Config) error {
		return errors.New("no router runs with this configuration, and only a running one knows what its clients cost; start it with 'metarouter serve', or let a client start it")
	}
	return show(ctx, e, need{alone: alone}, "/dashboard/tokens", e.parameters(), func(used admin.Tokens) error {
		if e.JSON {
			return e.PrintJSON(used)
		}
		return printTokens(e, used)
	})
}

func printTokens(e *Env, used admin.Tokens) error {
	title := func(text string, right bool) terminal.Cell {
		return terminal.Cell{Text: text, Colour: terminal.Bold, Right: right}
	}
	number := func(n int64) terminal.Cell { return terminal.Cell{Text: fmt.Sprint(n), Right: true} }
	rows := []terminal.Row{{title("SERVER", false), title("TOOLS", true), title("TOKENS OF DEFINITIONS", true)}}
	for _, s := range used.Servers {
		rows = append(rows, terminal.Row{{Text: s.Server}, number(int64(s.Tools)), number(int64(s.Definitions))})
	}
	if err := e.PrintRows(rows, nil); err != nil {
		return err
	}
	if len(used.Clients) == 0 {
		e.Note("no client has listed or called a tool since the router's start")
		return nil
	}
	fmt.Fprintln(e.Out)
	rows = []terminal.Row{{title("CLIENT", false), title("PROFILE", false), title("SERVER", false), title("CALLS", true), title("RESULTS", true), title("LISTS", true)}}
	for _, u := range used.Clients {
		rows = append(rows, terminal.Row{
			{Text: cmp.Or(u.Client, "–")}, {Text: cmp.Or(u.Profile, "–")}, {Text: cmp.Or(u.Server, "–")}, number(u.Calls), number(u.Results), number(u.Definitions),
		})
	}
	return e.PrintRows(rows, nil)
}
