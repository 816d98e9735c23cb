// Package evaluate measures the search on catalogs and queries in files. It starts no server.
package evaluate

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
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
	if err := writeLines(o.Out, e.Rankings); err != nil {
		return err
	}
	result := evaluated{e.Tools, e.Examples, e.Scores, milliseconds(e.Median), milliseconds(e.P99)}
	if out.JSON {
		return out.PrintJSON(result)
	}
	return printEvaluated(out, result)
}

// writeLines writes each row as JSON in a line of its own, unless the path is "".
func writeLines[Row any](path string, rows []Row) (err error) {
	if path == "" {
		return nil
	}
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

// routeThreshold is the default of the setting of the same name.
const routeThreshold = 0.5

// evaluatedTasks is what eval --lists prints as JSON.
type evaluatedTasks struct {
	FindThreshold  float64 `json:"find_threshold"`
	RouteThreshold float64 `json:"route_threshold"`
	selector.TaskEvaluation
}

// runTasks measures with recorded lists of tools, and tasks of several kinds.
func runTasks(ctx context.Context, out *console.Console, o Options, folders []string) error {
	if len(o.Catalogs) != len(o.Queries) || len(o.Catalogs)+len(folders) == 0 {
		return exit.Usage(errors.New("with --lists, write folders with catalog.json and tasks.jsonl, or --catalog FILE and --queries FILE equally often"))
	}
	for _, folder := range folders {
		o.Catalogs = append(o.Catalogs, filepath.Join(folder, "catalog.json"))
		o.Queries = append(o.Queries, filepath.Join(folder, "tasks.jsonl"))
	}
	log, err := out.Logger(zapcore.WarnLevel)
	if err != nil {
		return err
	}
	var catalogs []selector.TaskCatalog
	for i := range o.Catalogs {
		c, err := selector.ReadTasks(log, o.Catalogs[i], o.Queries[i], o.Lists)
		if err != nil {
			return exit.Usage(err)
		}
		catalogs = append(catalogs, c)
	}
	result := evaluatedTasks{FindThreshold: selector.DefaultFindThreshold, RouteThreshold: routeThreshold}
	if result.TaskEvaluation, err = selector.EvaluateTasks(ctx, catalogs, result.RouteThreshold, log); err != nil {
		return err
	}
	if err := writeLines(o.Out, result.Outcomes); err != nil {
		return err
	}
	if out.JSON {
		return out.PrintJSON(result)
	}
	return printEvaluatedTasks(out, result)
}

func printEvaluatedTasks(out *console.Console, e evaluatedTasks) error {
	return out.PrintTable(func(w console.Table) {
		fmt.Fprintf(w, "catalogs: %d, tools: %d, tasks: %d; shares in %% with 95 %% bootstrap intervals\n\n", len(e.Catalogs), e.Tools, len(e.Outcomes))
		fmt.Fprintf(w, "KIND\tTASKS\tFIRST\tIN THREE\tIN TEN\tREFUSED\tWRONG, SURE\tNOT RUN\tNOT RUN, OR NOT HARMLESS\n")
		for _, k := range e.Kinds {
			first, inThree, inTen := k.First.String(), k.InThree.String(), k.InTen.String()
			if k.Name == "none" {
				first, inThree, inTen = "–", "–", "–"
			}
			w.Row(k.Name, k.Tasks, first, inThree, inTen, k.Refused, k.WrongAndSure, k.NotRun, k.NotRunOrUnfit)
		}
		fmt.Fprintf(w, "\nCATALOG\tWITH A TOOL\tFIRST\tIN THREE\tREFUSED\n")
		for _, c := range e.Catalogs {
			w.Row(c.Name, c.Tasks, math.Round(100*c.First.Value), math.Round(100*c.InThree.Value), math.Round(100*c.Refused.Value))
		}
		fmt.Fprintf(w, "\nFIRST, IN THREE, IN TEN: the best right tool of the answer, refused or not.\n")
		fmt.Fprintf(w, "REFUSED: the answer abstains or is not sure (confidence below %.2f).\n", e.FindThreshold)
		fmt.Fprintf(w, "WRONG, SURE: the answer is sure, and its first tool is not right.\n")
		fmt.Fprintf(w, "NOT RUN: route abstains or the confidence is below %.2f; the last column also counts tools that route does not run because they are not harmless.\n", e.RouteThreshold)
		fmt.Fprintf(w, "Expected calibration error of the confidence (ten bins of equal size): %.3f\n", e.CalibrationError)
	})
}
