// Package evaluate measures the search on catalogs and queries in files. It starts no server.
package evaluate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/configfile"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/console"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/exit"
	"github.com/mcp-metarouter/metarouter/internal/evaluation"
	"github.com/mcp-metarouter/metarouter/selector"
)

type evaluated struct {
	Tools   int `json:"tools"`
	Queries int `json:"queries"`
	evaluation.Scores
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

// Run measures the search and prints the scores. With recorded lists, each folder has a catalog and tasks.
func Run(ctx context.Context, files *configfile.Source, o Options, folders []string) error {
	out := files.Console
	log, err := out.Logger(zapcore.WarnLevel)
	if err != nil {
		return err
	}
	switch {
	case o.Lists != "":
		return runTasks(ctx, out, o, folders, log)
	case len(folders) > 0:
		return exit.Usage(fmt.Errorf("%s: name the folder with the recorded lists of tools, too: --lists DIR", folders[0]))
	case len(o.Catalogs) == 0 || len(o.Queries) == 0:
		return exit.Usage(errors.New("write --catalog FILE, with {server, name, description, input_schema} in each line, and --queries FILE, with {id, query, relevant: [{server, name}]}; or --lists DIR and folders with catalog.json and tasks.jsonl"))
	case o.Limit < 1:
		return exit.Usage(fmt.Errorf("-k %d is too small; write 1 or more", o.Limit))
	}
	var examples []evaluation.Example
	for _, path := range o.Queries {
		more, err := evaluation.ReadExamples(path)
		if err != nil {
			return exit.Usage(configfile.InFlag("--queries", err))
		}
		examples = append(examples, more...)
	}
	tools, err := evaluation.ReadCatalog(log, o.Catalogs...)
	if err != nil {
		return exit.Usage(configfile.InFlag("--catalog", err))
	}
	e, err := evaluation.Evaluate(ctx, tools, examples, o.Limit, log)
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
func writeLines[Row any](path string, rows []Row) error {
	if path == "" {
		return nil
	}
	var b bytes.Buffer
	lines := json.NewEncoder(&b)
	for _, r := range rows {
		if err := lines.Encode(r); err != nil {
			return err
		}
	}
	return os.WriteFile(path, b.Bytes(), 0o666)
}

func printEvaluated(out *console.Console, e evaluated) error {
	return out.PrintTable(func(t console.Table) {
		t.Row(fmt.Sprintf("tools: %d, queries: %d", e.Tools, e.Queries))
		names := []string{"Recall@1", "Recall@3", "Recall@5", "Recall@10", "nDCG@5", "nDCG@10", "MRR", "mAP@10"}
		for i, x := range []float64{e.Recall1, e.Recall3, e.Recall5, e.Recall10, e.NDCG5, e.NDCG10, e.MRR, e.MAP10} {
			t.Row(names[i], fmt.Sprintf("%.3f", x))
		}
		t.Row("p50", fmt.Sprintf("%.2f ms", float64(e.Median)/1e6))
		t.Row("p99", fmt.Sprintf("%.2f ms", float64(e.P99)/1e6))
	})
}

type evaluatedTasks struct {
	FindThreshold  float64 `json:"find_threshold"`
	RouteThreshold float64 `json:"route_threshold"` // the default of the setting
	evaluation.TaskReport
}

// runTasks measures with recorded lists of tools, and tasks of several kinds.
func runTasks(ctx context.Context, out *console.Console, o Options, folders []string, log *zap.Logger) (err error) {
	if len(o.Catalogs) != len(o.Queries) || len(o.Catalogs)+len(folders) == 0 {
		return exit.Usage(errors.New("with --lists, write folders with catalog.json and tasks.jsonl, or --catalog FILE and --queries FILE equally often"))
	}
	for _, folder := range folders {
		o.Catalogs = append(o.Catalogs, filepath.Join(folder, "catalog.json"))
		o.Queries = append(o.Queries, filepath.Join(folder, "tasks.jsonl"))
	}
	var catalogs []evaluation.TaskCatalog
	for i := range o.Catalogs {
		c, err := evaluation.ReadTasks(log, o.Catalogs[i], o.Queries[i], o.Lists)
		if err != nil {
			return exit.Usage(err)
		}
		catalogs = append(catalogs, c)
	}
	result := evaluatedTasks{FindThreshold: selector.DefaultFindThreshold, RouteThreshold: 0.5}
	if result.TaskReport, err = evaluation.EvaluateTasks(ctx, catalogs, result.RouteThreshold, log); err != nil {
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
		fmt.Fprintf(w, "catalogs: %d, tools: %d, tasks: %d; shares in %% with 95 %% bootstrap intervals\n\nKIND\tTASKS\tFIRST\tIN THREE\tIN TEN\tREFUSED\tWRONG, SURE\tNOT RUN\tNOT RUN, OR NOT HARMLESS\n",
			len(e.Catalogs), e.Tools, len(e.Outcomes))
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
		fmt.Fprintf(w, "\nFIRST, IN THREE, IN TEN: the best right tool of the answer, refused or not.\nREFUSED: the answer abstains or is not sure (confidence below %.2f, or the next tool is about as likely).\nWRONG, SURE: the answer is sure, and its first tool is not right.\n", e.FindThreshold)
		fmt.Fprintf(w, "NOT RUN: route abstains or the confidence is below %.2f; the last column also counts tools that route does not run because they are not harmless.\n", e.RouteThreshold)
		fmt.Fprintf(w, "Expected calibration error of the confidence (ten bins of equal size): %.3f\n", e.CalibrationError)
	})
}
