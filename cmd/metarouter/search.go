package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
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

	Why *selector.Explanation `json:"why,omitempty"`
}

func candidates(from []selector.Candidate) []candidate {
	rows := []candidate{}
	for _, c := range from {
		t := c.Tool
		rows = append(rows, candidate{ID: t.ID, Server: t.Server, Name: t.Name, Description: t.Description, Capabilities: tagsOf(t), Score: c.Score, Confidence: c.Confidence})
	}
	return rows
}

// explained prints the shares of a score, in lines that do not disturb the table.
func explained(w io.Writer, e *selector.Explanation) {
	for _, f := range e.Features {
		if f.Share != 0 {
			fmt.Fprintf(w, "  %3.0f%%  %s (%.2f × %.1f)\n", 100*f.Share, f.Name, f.Value, f.Weight)
		}
	}
	for _, word := range e.Words {
		as := ""
		if len(word.As) > 0 {
			as = " as " + strings.Join(word.As, ", ")
		}
		var fields []string
		for _, field := range slices.Sorted(maps.Keys(word.Fields)) {
			fields = append(fields, fmt.Sprintf("%s %.0f%%", field, 100*word.Fields[field]))
		}
		fmt.Fprintf(w, "        %s%s: %.0f%% of the words, in %s\n", word.Word, as, 100*word.Share, strings.Join(fields, ", "))
	}
	if len(e.Missing) > 0 {
		fmt.Fprintf(w, "        missing: %s\n", strings.Join(e.Missing, ", "))
	}
}

func (a *app) search() *cobra.Command {
	var limit int
	var tags []string
	var explain bool
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
				rows := candidates(found.Candidates)
				if explain {
					why, err := r.Explain(ctx, query, found.Candidates)
					if err != nil {
						return err
					}
					for i := range rows {
						rows[i].Why = &why[i]
					}
				}
				if a.json {
					err = a.printJSON(map[string]any{"query": query, "abstained": found.Abstained, "tools": rows})
				} else {
					err = a.printRanking(found, rows)
				}
				if err == nil && found.Abstained {
					err = &exitError{code: exitNoTool}
				}
				return err
			})
		}))
	cmd.Flags().IntVarP(&limit, "limit", "k", 10, "the most tools to list")
	cmd.Flags().BoolVar(&explain, "explain", false, "say what each score is made of")
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

// printRanking prints the tools found, and why where that is known.
func (a *app) printRanking(found selector.Ranking, rows []candidate) error {
	if found.Abstained {
		fmt.Fprintln(a.stderr, noFit(found.Candidates))
	}
	a.notePartial(found.Partial)
	return a.table(func(w *tabwriter.Writer) {
		for _, c := range rows {
			fmt.Fprintf(w, "%.2f\t%s\t%s\t%s\n", c.Confidence, c.ID, strings.Join(c.Capabilities, " "), summary(c.Description))
			if c.Why != nil {
				explained(w, c.Why)
			}
		}
	})
}
