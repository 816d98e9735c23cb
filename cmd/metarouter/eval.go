package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap/zapcore"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/configfile"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/console"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/exit"
	"github.com/mcp-metarouter/metarouter/selector"
)

// An evaluated is what eval prints as JSON.
type evaluated struct {
	Tools   int `json:"tools"`
	Queries int `json:"queries"`
	selector.Scores
	Median milliseconds `json:"p50_ms"`
	P99    milliseconds `json:"p99_ms"`
}

type milliseconds time.Duration

func (m milliseconds) MarshalJSON() ([]byte, error) {
	return fmt.Appendf(nil, "%.3f", float64(m)/1e6), nil
}

// evalOptions are the flags of eval.
type evalOptions struct {
	catalogs, queries []string
	lists, out        string
	limit             int
}

func newEvalCommand(env *environment) *cobra.Command {
	var o evalOptions
	cmd := newCommand("eval [--lists DIR FOLDER…] [--catalog FILE --queries FILE]", "Measure the search on your own tools and queries; start no server",
		`  metarouter eval --catalog tools.jsonl --queries queries.jsonl
  metarouter eval --catalog a.jsonl --catalog b.jsonl --queries q.jsonl -k 50 --out rankings.jsonl
  metarouter eval --lists recorded/ tasks/office tasks/webdev
  metarouter eval --lists recorded/ --catalog catalog.json --queries tasks.jsonl`,
		cobra.ArbitraryArgs, func(ctx context.Context, folders []string) error { return runEval(ctx, env, o, folders) })
	addJSONFlag(env, cmd)
	flags := cmd.Flags()
	flags.StringArrayVar(&o.catalogs, "catalog", nil, "Read tools from this `file`, one JSON object {server, name, description, input_schema} in each line; with --lists, {servers: [{name, list}]}. Repeat the flag for several catalogs.")
	flags.StringArrayVar(&o.queries, "queries", nil, "Read queries from this `file`, one JSON object {id, query, relevant: [{server, name}]} in each line; with --lists, {id, kind, task, right: [server:tool]}, one file for each catalog. Repeat the flag for several files.")
	flags.StringVar(&o.lists, "lists", "", "Read the tools of a server from the file LIST.json in this `folder`: its answer to tools/list. Each FOLDER holds catalog.json and tasks.jsonl.")
	flags.StringVar(&o.out, "out", "", "Write the rankings to this `file`, one JSON object {id, ranked} in each line; with --lists, the outcome of each task. By default no file is written.")
	flags.IntVarP(&o.limit, "limit", "k", 10, "Rank at most this `number` of tools for each query. With --lists it is always 10.")
	return cmd
}

func runEval(ctx context.Context, env *environment, o evalOptions, folders []string) error {
	switch {
	case o.lists != "":
		return runEvalTasks(ctx, env, o, folders)
	case len(folders) > 0:
		return exit.Usage(fmt.Errorf("%s: name the folder with the recorded lists of tools, too: --lists DIR", folders[0]))
	case len(o.catalogs) == 0 || len(o.queries) == 0:
		return exit.Usage(errors.New("write --catalog FILE, with {server, name, description, input_schema} in each line, and --queries FILE, with {id, query, relevant: [{server, name}]}; or --lists DIR and folders with catalog.json and tasks.jsonl"))
	case o.limit < 1:
		return exit.Usage(fmt.Errorf("-k %d is too small; write 1 or more", o.limit))
	}
	log, err := env.Logger(zapcore.WarnLevel)
	if err != nil {
		return err
	}
	var examples []selector.Example
	for _, path := range o.queries {
		more, err := selector.ReadExamples(path)
		if err != nil {
			return exit.Usage(configfile.InFlag("--queries", err))
		}
		examples = append(examples, more...)
	}
	tools, err := selector.ReadCatalog(log, o.catalogs...)
	if err != nil {
		return exit.Usage(configfile.InFlag("--catalog", err))
	}
	e, err := selector.Evaluate(ctx, tools, examples, o.limit, log)
	if err != nil {
		return err
	}
	if o.out != "" {
		if err := writeLines(o.out, e.Rankings); err != nil {
			return err
		}
	}
	result := evaluated{e.Tools, e.Examples, e.Scores, milliseconds(e.Median), milliseconds(e.P99)}
	if env.JSON {
		return env.PrintJSON(result)
	}
	return printEvaluated(env, result)
}

// writeLines writes each row as JSON in a line of its own.
func writeLines[Row any](path string, rows []Row) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w := bufio.NewWriter(f)
	lines := json.NewEncoder(w)
	for _, r := range rows {
		if err := lines.Encode(r); err != nil {
			return err
		}
	}
	return w.Flush()
}

func printEvaluated(env *environment, e evaluated) error {
	return env.PrintTable(func(t console.Table) {
		t.Row(fmt.Sprintf("tools: %d, queries: %d", e.Tools, e.Queries))
		for _, row := range []struct {
			name  string
			value float64
		}{
			{"Recall@1", e.Recall1}, {"Recall@3", e.Recall3}, {"Recall@5", e.Recall5}, {"Recall@10", e.Recall10},
			{"nDCG@5", e.NDCG5}, {"nDCG@10", e.NDCG10}, {"MRR", e.MRR}, {"mAP@10", e.MAP10},
		} {
			t.Row(row.name, fmt.Sprintf("%.3f", row.value))
		}
		t.Row("p50", fmt.Sprintf("%.2f ms", float64(e.Median)/1e6))
		t.Row("p99", fmt.Sprintf("%.2f ms", float64(e.P99)/1e6))
	})
}
