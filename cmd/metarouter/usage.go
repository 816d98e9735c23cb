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
)

func newUsageCommand(env *environment) *cobra.Command {
	var clear bool
	cmd := newCommand("usage", "Show what was learned from calls: which tools were used after which queries",
		`  metarouter usage
  metarouter usage --clear`,
		noArguments, func(ctx context.Context, _ []string) error { return runUsage(ctx, env, clear) })
	addJSONFlag(env, cmd)
	cmd.Flags().BoolVar(&clear, "clear", false, "Forget everything that was learned. By default it is shown and kept.")
	return cmd
}

func runUsage(ctx context.Context, env *environment, clear bool) error {
	c, err := loadConfig(ctx, env)
	if err != nil {
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
		env.note("what was learned is forgotten")
		return nil
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
	if env.json {
		return env.printJSON(rows)
	}
	if len(rows) == 0 {
		env.note("nothing was learned yet: no tool was called after a search")
		return nil
	}
	return env.printTable(func(w *tabwriter.Writer) {
		for _, r := range rows {
			fmt.Fprintf(w, "%s\t%d calls\t%d failed\t%s\n", r.Tool, r.Calls, r.Failures, strings.Join(r.Queries, "; "))
		}
	})
}

// openUsage returns what was learned from calls under the configuration.
func openUsage(env *environment, c config.Config) (*adapter.Usage, error) {
	if env.running != nil {
		if s := env.running.router.Usage(); s != nil {
			return s, nil
		}
	}
	log, err := env.newLogger(zapcore.WarnLevel)
	if err != nil {
		return nil, err
	}
	return adapter.OpenUsage(c, env.data, log)
}
