package main

import (
	"context"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"go.uber.org/zap/zapcore"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/config"
	uses "github.com/mcp-metarouter/metarouter/internal/usage"
)

func (a *app) usage() *cobra.Command {
	var clear bool
	cmd := a.jsonFlag(leaf("usage", "Show what was learned from calls: which tools were used after which queries",
		`  metarouter usage
  metarouter usage --clear`,
		cobra.NoArgs, func(ctx context.Context, _ []string) error {
			c, err := a.load(ctx)
			if err != nil {
				return err
			}
			if done, err := a.ask(ctx, c, false); done {
				return err
			}
			s, err := a.learned(c)
			if err != nil {
				return err
			}
			if clear {
				return s.Clear()
			}
			type row struct {
				Tool     string   `json:"tool"`
				Calls    int      `json:"calls"`
				Failures int      `json:"failures"`
				Queries  []string `json:"queries"` // as the stems of their words
			}
			rows := []row{}
			for _, e := range s.Tools() {
				r := row{e.Tool, e.Calls, e.Failures, []string{}}
				for _, words := range e.Queries {
					r.Queries = append(r.Queries, strings.Join(words, " "))
				}
				rows = append(rows, r)
			}
			if a.json {
				return a.printJSON(rows)
			}
			return a.table(func(w *tabwriter.Writer) {
				for _, r := range rows {
					fmt.Fprintf(w, "%s\t%d calls\t%d failed\t%s\n", r.Tool, r.Calls, r.Failures, strings.Join(r.Queries, "; "))
				}
			})
		}))
	cmd.Flags().BoolVar(&clear, "clear", false, "forget it all")
	return cmd
}

// learned returns what was learned from use under the configuration.
func (a *app) learned(c config.Config) (*uses.Store, error) {
	if a.router != nil {
		if s := a.router.Usage(); s != nil {
			return s, nil
		}
	}
	log, err := a.log(zapcore.WarnLevel)
	if err != nil {
		return nil, err
	}
	return adapter.OpenUsage(c, a.data, log)
}
