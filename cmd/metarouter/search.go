package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/exit"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/oneshot"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/terminal"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/why"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector"
)

// A candidate is a ranked tool, as search and route print it as JSON.
type candidate struct {
	ID           string   `json:"id"`
	Tool         string   `json:"tool"` // the same
	Server       string   `json:"server"`
	Name         string   `json:"name"`
	Description  string   `json:"description"`
	Capabilities []string `json:"capabilities"`
	Score        float64  `json:"score"`
	Confidence   float64  `json:"confidence"`
	Places       []string `json:"places,omitempty"`    // servers that have the same tool, that of ID first
	OtherIDs     []string `json:"other_ids,omitempty"` // of the tool on the other servers
	Ambiguous    bool     `json:"ambiguous,omitempty"` // nothing says which server is meant

	Why *selector.Explanation `json:"why,omitempty"`
}

func candidates(from []selector.Candidate) []candidate {
	rows := []candidate{}
	for _, c := range from {
		t := c.Tool
		row := candidate{ID: t.ID, Tool: t.ID, Server: t.Server, Name: t.Name, Description: t.Description, Capabilities: tagsOf(t), Score: c.Score, Confidence: c.Confidence, Ambiguous: c.Ambiguous}
		if row.Places = serversOf(c.Places); row.Places != nil {
			row.OtherIDs = c.IDs()[1:]
		}
		rows = append(rows, row)
	}
	return rows
}

// serversOf returns the servers of tools.
func serversOf(tools []*registry.NormalizedTool) (servers []string) {
	for _, t := range tools {
		servers = append(servers, t.Server)
	}
	return servers
}

// alsoOn says which other servers have a tool, after its ID; places are as in [candidate].
func alsoOn(places []string) string {
	if len(places) < 2 {
		return ""
	}
	return " (also on " + strings.Join(places[1:], ", ") + ")"
}

// searchOptions are the flags of search.
type searchOptions struct {
	limit        int
	explain      bool
	capabilities []string
}

func newSearchCommand(env *environment) *cobra.Command {
	var o searchOptions
	cmd := newCommand("search QUERY", "Find tools by words or by capability",
		`  metarouter search "take a screenshot of a page"
  metarouter search "convert" -c math -k 3`,
		cobra.ArbitraryArgs, func(ctx context.Context, args []string) error {
			return runSearch(ctx, env, strings.Join(args, " "), o)
		})
	addJSONFlag(cmd, env.Console)
	addProfileFlag(env, cmd)
	addCapabilityFlag(cmd, &o.capabilities, preferTags)
	cmd.Flags().IntVarP(&o.limit, "limit", "k", 10, "List at most this `number` of tools.")
	cmd.Flags().BoolVar(&o.explain, "explain", false, "Show for each tool what its score is made of: words, meaning, use and others, each as a percentage of the score, with its value and its weight. By default only the confidence is shown.")
	return cmd
}

func runSearch(ctx context.Context, env *environment, query string, o searchOptions) error {
	if query == "" && len(o.capabilities) == 0 {
		return exit.Usage(errors.New("nothing to search for; write words, or -c with a capability tag, such as -c browser"))
	}
	if o.limit < 1 {
		return exit.Usage(fmt.Errorf("-k %d is too small; write 1 or more", o.limit))
	}
	c, done, err := loadOrAsk(ctx, env, false)
	if err != nil || done {
		return err
	}
	return withScope(ctx, env, c, withRouter, func(ctx context.Context, r *adapter.Scope, _ config.Config) error {
		if err := oneshot.AwaitTools(ctx, env.Console, r); err != nil {
			return err
		}
		found, err := r.Find(ctx, selector.Query{Task: query, Capabilities: o.capabilities, Limit: o.limit, Assistant: r.Assistant()})
		if err != nil {
			return err
		}
		rows := candidates(found.Candidates)
		if o.explain {
			explained, err := r.Explain(ctx, query, found.Candidates)
			if err != nil {
				return err
			}
			for i := range rows {
				rows[i].Why = &explained[i]
			}
		}
		if env.JSON {
			err = env.PrintJSON(searchAnswerOf(query, found, rows))
		} else {
			err = printRanking(env, found, rows)
		}
		if err == nil && found.Abstained {
			err = &exit.Error{Code: exit.NoTool}
		}
		return err
	})
}

// notePartial names on stderr the capabilities that no tool has together with the others.
func notePartial(env *environment, missing []string) {
	if len(missing) > 0 {
		env.Note("no tool has all the capabilities that you asked for; the tools that are listed lack %q. 'metarouter capabilities' lists the tags", strings.Join(missing, ", "))
	}
}

// A searchAnswer is what search prints as JSON.
type searchAnswer struct {
	Query     string      `json:"query"`
	Sure      bool        `json:"sure"`
	Abstained bool        `json:"abstained"`
	By        string      `json:"by,omitempty"`      // what chose the first tool
	Tools     []candidate `json:"tools"`             // empty if abstained
	Nearest   []candidate `json:"nearest,omitempty"` // if abstained
}

// maxNearest is how many tools are named as the nearest where no tool fits.
const maxNearest = 3

func searchAnswerOf(query string, found selector.Ranking, rows []candidate) searchAnswer {
	a := searchAnswer{Query: query, Sure: found.Sure, Abstained: found.Abstained, By: found.By, Tools: rows}
	if found.Abstained {
		a.Tools, a.Nearest = []candidate{}, rows[:min(len(rows), maxNearest)]
	}
	return a
}

// verdict returns the line that stands above tools that are not a sure answer.
func verdict(abstained, any bool) string {
	switch {
	case !any:
		return "no tool fits"
	case abstained:
		return "no tool fits; the nearest:"
	}
	return "no tool is a sure match; try other words, or one of the nearest:"
}

// shownConfidence returns a confidence as tables show it: a dash for none.
func shownConfidence(confidence float64) string {
	if confidence < 0.01 {
		return "–"
	}
	return why.Confidence(confidence)
}

// printRanking prints the tools found, with the parts of their scores where rows have
// them.
func printRanking(env *environment, found selector.Ranking, rows []candidate) error {
	notePartial(env, found.Partial)
	if !found.Sure {
		fmt.Fprintln(env.Err, verdict(found.Abstained, len(rows) > 0))
	}
	if found.Abstained {
		rows = rows[:min(len(rows), maxNearest)]
	}
	return printCandidates(env, rows)
}

// printCandidates prints a row for each tool, with the parts of its score below it if it
// has them.
func printCandidates(env *environment, tools []candidate) error {
	rows := make([]terminal.Row, len(tools))
	for i, c := range tools {
		rows[i] = append(terminal.Row{{Text: shownConfidence(c.Confidence), Right: true}}, toolCells(c.ID+alsoOn(c.Places), c.Capabilities, c.Description)...)
	}
	columns, _ := env.Page()
	return env.PrintRows(rows, func(i int) string {
		var b strings.Builder
		if tools[i].Why != nil {
			why.PrintScore(&b, tools[i].Why, columns)
		}
		return b.String()
	})
}
