package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap/zapcore"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/console"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/terminal"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/profile"
)

func newUsageCommand(env *environment) *cobra.Command {
	var clear, tokens bool
	cmd := newCommand("usage", "Show what was learned from calls: tools for queries",
		`  metarouter usage
  metarouter usage --clear
  metarouter usage --tokens`,
		noArguments, func(ctx context.Context, _ []string) error {
			if tokens {
				return runUsageOfTokens(ctx, env)
			}
			return runUsage(ctx, env, clear)
		})
	addJSONFlag(cmd, env.Console)
	addNamedProfileFlag(env, cmd, "Show only tools that the patterns of the `profile` of this name allow. (default all tools)")
	cmd.Flags().BoolVar(&clear, "clear", false, "Forget everything that was learned. By default it is shown and kept.")
	cmd.Flags().BoolVar(&tokens, "tokens", false, "Show what clients of the running router have cost since its start, in tokens of 4 bytes: results and lists of tools, by server, client and profile. By default what was learned is shown.")
	cmd.MarkFlagsMutuallyExclusive("profile", "clear")
	cmd.MarkFlagsMutuallyExclusive("tokens", "clear")
	return cmd
}

func runUsage(ctx context.Context, env *environment, clear bool) error {
	c, done, err := loadOrAsk(ctx, env, false)
	if err != nil || done {
		return err
	}
	if err := checkProfile(c, env.profile); err != nil {
		return err
	}
	if done, err := askRunningRouter(ctx, env, c, false); done {
		return err
	}
	s, err := openUsage(env, c)
	if err != nil {
		return err
	}
	if clear {
		if err := s.Clear(); err != nil {
			return err
		}
		env.Note("what was learned is forgotten")
		return nil
	}
	rules := new(profile.Rules)
	if env.profile != nil && *env.profile != "" {
		rules = profile.Of(c.Router.Profiles, *env.profile)
	}
	rows := []learnedTool{}
	for _, e := range s.Tools() {
		if server, name, _ := strings.Cut(e.Tool, ":"); !rules.Name(server, name) {
			continue
		}
		row := learnedTool{Tool: e.Tool, Calls: e.Calls, Failures: e.Failures, Queries: []string{}, Learned: []learnedQuery{}}
		for _, q := range e.Queries {
			row.add(q.Typed, q.Words, q.Votes, q.Last)
		}
		rows = append(rows, row)
	}
	if len(rows) == 0 {
		env.Note("%s", whyNothingLearned(env, c))
	}
	if env.JSON {
		return env.PrintJSON(rows)
	}
	var table []terminal.Row
	for _, r := range rows {
		table = append(table, terminal.Row{{Text: r.Tool}, {Text: console.Counted(r.Calls, "call")}, {Text: fmt.Sprintf("%d failed", r.Failures)}})
		for _, q := range r.Learned {
			table = append(table, terminal.Row{{Text: "  " + q.Query}, {Text: q.votes()}, {Text: q.Last.Format(time.DateOnly)}, {Text: strings.Join(q.Words, " "), Colour: terminal.Faint}})
		}
	}
	return env.PrintRows(table, nil)
}

// A learnedTool is what usage prints of a tool as JSON.
type learnedTool struct {
	Tool     string         `json:"tool"`
	Calls    int            `json:"calls"`
	Failures int            `json:"failures"`
	Queries  []string       `json:"queries"` // those of Learned
	Learned  []learnedQuery `json:"learned"` // the strongest first
}

// A learnedQuery is a query after which the tool was called.
type learnedQuery struct {
	Query string    `json:"query"` // as it was typed, or its words if that is not known
	Words []string  `json:"words"`
	Votes float64   `json:"votes"`
	Last  time.Time `json:"last"`
}

func (t *learnedTool) add(typed string, words []string, votes float64, last time.Time) {
	query := cmp.Or(typed, strings.Join(words, " "))
	t.Queries = append(t.Queries, query)
	t.Learned = append(t.Learned, learnedQuery{query, words, votes, last})
}

// votes returns the votes in words.
func (q learnedQuery) votes() string {
	switch {
	case q.Votes > 0:
		return fmt.Sprintf("%.1f votes for it", q.Votes)
	case q.Votes < 0:
		return fmt.Sprintf("%.1f votes against it", -q.Votes)
	}
	return "no votes yet"
}

// whyNothingLearned says why usage has nothing to show.
func whyNothingLearned(env *environment, c config.Config) string {
	switch {
	case !c.Router.Learning:
		return `nothing was learned, since "learning" is false in the configuration; take it out, so that the router learns`
	case env.files.Data == "" && env.running == nil:
		return `nothing was learned: without a data folder (--data "") it is kept only while a router runs; name a folder`
	}
	return "nothing was learned yet; the router learns when a client calls a tool within 10 minutes after it searched with find_tools or route_task"
}

// openUsage returns what was learned from calls under the configuration.
func openUsage(env *environment, c config.Config) (*adapter.Usage, error) {
	if env.running != nil {
		if s := env.running.router.Usage(); s != nil {
			return s, nil
		}
	}
	log, err := env.Logger(zapcore.WarnLevel)
	if err != nil {
		return nil, err
	}
	return adapter.OpenUsage(c, env.files.Data, log)
}
