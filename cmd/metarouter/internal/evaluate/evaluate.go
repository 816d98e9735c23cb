// Package evaluate measures the search on catalogs and queries in files. It starts no server.
package evaluate

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

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

// Options are the flags of eval.
type Options struct {
	Catalogs, Queries []string
	Lists, Out        string
	Limit             int
}

// Run measures the search, and prints the scores. folders hold a catalog and tasks each, for a measurement
// with recorded lists.
func Run(ctx context.Context, out *console.Console, o Options, folders []string) error {
	switch {
	case o.Lists != "":
		return runTasks(ctx, out, o, folders)
	case len(folders) > 0:
		return exit.Usage(fmt.Errorf("%s: name the folder with the recorded lists of tools, too: --lists DIR", folders[0]))
	case len(o.Catalogs) == 0 || len(o.Queries) == 0:
		return exit.Usage(errors.New("write --catalog FILE, with {server, name, description, input_schema} in each line, and --queries FILE, with {id, query, relevant: [{server, name}]}; or --lists DIR and folders with catalog.json and tasks.jsonl"))
	case o.Limit < 1:
		return exit.Usage(fmt.Errorf("-k %d is too small; write 1 or more", o.Limit))
	}
	log, err := out.Logger(zapcore.WarnLevel)
	if err != nil {
		return err
	}
	var examples []selector.Example
	for _, path := range o.Queries {
		more, err := selector.ReadExamples(path)
		if err != nil {
			return exit.Usage(configfile.InFlag("--queries", err))
		}
		examples = append(examples, more...)
	}
	tools, err := selector.ReadCatalog(log, o.Catalogs...)
	if err != nil {
		return exit.Usage(configfile.InFlag("--catalog", err))
	}
	e, err := selector.Evaluate(ctx, tools, examples, o.Limit, log)
	if err != nil {
		return err
	}
	if o.Out != "" {
		if err := writeLines(o.Out, e.Rankings); err != nil {
			return err
		}
	}
	result := evaluated{e.Tools, e.Examples, e.Scores, milliseconds(e.Median), milliseconds(e.P99)}
	if out.JSON {
		return out.PrintJSON(result)
	}
	return printEvaluated(out, result)
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

func printEvaluated(out *console.Console, e evaluated) error {
	return out.PrintTable(func(t console.Table) {
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
