package main

import (
	"context"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/selector"
)

// A candidate is a ranked tool as JSON.
type candidate struct {
	ID           string   `json:"id"`
	Server       string   `json:"server"`
	Name         string   `json:"name"`
	Description  string   `json:"description"`
	Capabilities []string `json:"capabilities"`
	Score        float64  `json:"score"`
	Confidence   float64  `json:"confidence"`
}

func candidates(from []selector.Candidate) []candidate {
	rows := []candidate{}
	for _, c := range from {
		t := c.Tool
		rows = append(rows, candidate{t.ID, t.Server, t.Name, t.Description, tagsOf(t), c.Score, c.Confidence})
	}
	return rows
}

func (a *app) search() *cobra.Command {
	var limit int
	var tags []string
	cmd := a.jsonFlag(leaf("search QUERY", "Find tools by words or by capability",
		`  metarouter search "take a screenshot of a page"
  metarouter search "convert" -c math -k 3`,
		cobra.ArbitraryArgs, func(ctx context.Context, args []string) error {
			query := strings.Join(args, " ")
			if query == "" && len(tags) == 0 {
				return usage(fmt.Errorf("nothing to search for; write words or -c CAPABILITY"))
			}
			if limit < 1 {
				return usage(fmt.Errorf("-k %d: write 1 or more", limit))
			}
			c, err := a.load(ctx)
			if err != nil {
				return err
			}
			return a.with(ctx, c, func(ctx context.Context, r *adapter.Router) error {
				if err := a.settle(ctx, r); err != nil {
					return err
				}
				found, err := r.Find(ctx, selector.Query{Task: query, Capabilities: tags, Limit: limit})
				if err != nil {
					return err
				}
				if a.json {
					err = a.printJSON(map[string]any{"query": query, "abstained": found.Abstained, "tools": candidates(found.Candidates)})
				} else {
					err = a.printRanking(found)
				}
				if err == nil && found.Abstained {
					err = &exitError{code: exitNoTool}
				}
				return err
			})
		}))
	cmd.Flags().IntVarP(&limit, "limit", "k", 10, "the most tools to list")
	cmd.Flags().StringArrayVarP(&tags, "capability", "c", nil, "only tools that bear the `tag`; repeatable")
	return cmd
}

// notePartial says on stderr which capabilities no tool bears beside the others.
func (a *app) notePartial(missing []string) {
	if len(missing) > 0 {
		fmt.Fprintf(a.stderr, "no tool bears all the capabilities asked for; missing: %s\n", strings.Join(missing, ", "))
	}
}

// noFit says that no tool fits, before the nearest if there are any.
func noFit(nearest []selector.Candidate) string {
	if len(nearest) == 0 {
		return "no tool fits"
	}
	return "no tool fits; the nearest:"
}

func (a *app) printRanking(found selector.Ranking) error {
	if found.Abstained {
		fmt.Fprintln(a.stderr, noFit(found.Candidates))
	}
	a.notePartial(found.Partial)
	return a.table(func(w *tabwriter.Writer) {
		for _, c := range found.Candidates {
			fmt.Fprintf(w, "%.2f\t%s\t%s\t%s\n", c.Confidence, c.Tool.ID, strings.Join(c.Tool.Capabilities, " "), summary(c.Tool.Description))
		}
	})
}
