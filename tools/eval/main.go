// Command eval measures the search on catalogs and queries in files. It starts no server.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"math"
	"os"
	"path/filepath"
	"text/tabwriter"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/selector"
	"github.com/mcp-metarouter/metarouter/test/evaluation"
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

// A list is a flag that may be repeated.
type list []string

func (l *list) String() string { return fmt.Sprint(*l) }
func (l *list) Set(s string) error {
	*l = append(*l, s)
	return nil
}

// options are the flags.
type options struct {
	catalogs, queries list
	lists, out        string
	limit             int
	json              bool
}

func main() {
	log.SetFlags(0)
	if err := run(context.Background(), os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		log.Fatal("eval: ", err)
	}
}

// run measures the search and prints the scores. With recorded lists, each folder has a catalog and tasks.
func run(ctx context.Context, args []string, out io.Writer) error {
	var o options
	flags := flag.NewFlagSet("eval", flag.ContinueOnError)
	flags.Var(&o.catalogs, "catalog", "read tools from this `file`, one JSON object {server, name, description, input_schema} in each line; with -lists, {servers: [{name, list}]}; repeat it for several catalogs")
	flags.Var(&o.queries, "queries", "read queries from this `file`, one JSON object {id, query, relevant: [{server, name}]} in each line; with -lists, {id, kind, task, right: [server:tool]}, one file for each catalog; repeat it for several files")
	flags.StringVar(&o.lists, "lists", "", "read the tools of a server from the file LIST.json in this `folder`: its answer to tools/list; each FOLDER holds catalog.json and tasks.jsonl")
	flags.StringVar(&o.out, "out", "", "write the rankings to this `file`, one JSON object {id, ranked} in each line; with -lists, the outcome of each task; by default no file is written")
	flags.IntVar(&o.limit, "k", 10, "rank at most this `number` of tools for each query; with -lists it is always 10")
	flags.BoolVar(&o.json, "json", false, "print JSON")
	if err := flags.Parse(args); err != nil {
		return err
	}
	folders := flags.Args()
	log, err := zap.NewDevelopment(zap.IncreaseLevel(zap.WarnLevel))
	if err != nil {
		return err
	}
	switch {
	case o.lists != "":
		return runTasks(ctx, out, o, folders, log)
	case len(folders) > 0:
		return fmt.Errorf("%s: name the folder with the recorded lists of tools, too: -lists DIR", folders[0])
	case len(o.catalogs) == 0 || len(o.queries) == 0:
		return errors.New("write -catalog FILE, with {server, name, description, input_schema} in each line, and -queries FILE, with {id, query, relevant: [{server, name}]}; or -lists DIR and folders with catalog.json and tasks.jsonl")
	case o.limit < 1:
		return fmt.Errorf("-k %d is too small; write 1 or more", o.limit)
	}
	var examples []evaluation.Example
	for _, path := range o.queries {
		more, err := evaluation.ReadExamples(path)
		if err != nil {
			return fmt.Errorf("-queries: %w", err)
		}
		examples = append(examples, more...)
	}
	tools, err := evaluation.ReadCatalog(log, o.catalogs...)
	if err != nil {
		return fmt.Errorf("-catalog: %w", err)
	}
	e, err := evaluation.Evaluate(ctx, tools, examples, o.limit, log)
	if err != nil {
		return err
	}
	if err := writeLines(o.out, e.Rankings); err != nil {
		return err
	}
	result := evaluated{e.Tools, e.Examples, e.Scores, milliseconds(e.Median), milliseconds(e.P99)}
	if o.json {
		return printJSON(out, result)
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

func printEvaluated(out io.Writer, e evaluated) error {
	return printTable(out, func(t table) {
		t.row(fmt.Sprintf("tools: %d, queries: %d", e.Tools, e.Queries))
		names := []string{"Recall@1", "Recall@3", "Recall@5", "Recall@10", "nDCG@5", "nDCG@10", "MRR", "mAP@10"}
		for i, x := range []float64{e.Recall1, e.Recall3, e.Recall5, e.Recall10, e.NDCG5, e.NDCG10, e.MRR, e.MAP10} {
			t.row(names[i], fmt.Sprintf("%.3f", x))
		}
		t.row("p50", fmt.Sprintf("%.2f ms", float64(e.Median)/1e6))
		t.row("p99", fmt.Sprintf("%.2f ms", float64(e.P99)/1e6))
	})
}

type evaluatedTasks struct {
	FindThreshold  float64 `json:"find_threshold"`
	RouteThreshold float64 `json:"route_threshold"` // the default of the setting
	evaluation.TaskReport
}

// runTasks measures with recorded lists of tools, and tasks of several kinds.
func runTasks(ctx context.Context, out io.Writer, o options, folders []string, log *zap.Logger) (err error) {
	if len(o.catalogs) != len(o.queries) || len(o.catalogs)+len(folders) == 0 {
		return errors.New("with -lists, write folders with catalog.json and tasks.jsonl, or -catalog FILE and -queries FILE equally often")
	}
	for _, folder := range folders {
		o.catalogs = append(o.catalogs, filepath.Join(folder, "catalog.json"))
		o.queries = append(o.queries, filepath.Join(folder, "tasks.jsonl"))
	}
	var catalogs []evaluation.TaskCatalog
	for i := range o.catalogs {
		c, err := evaluation.ReadTasks(log, o.catalogs[i], o.queries[i], o.lists)
		if err != nil {
			return err
		}
		catalogs = append(catalogs, c)
	}
	result := evaluatedTasks{FindThreshold: selector.DefaultFindThreshold, RouteThreshold: 0.5}
	if result.TaskReport, err = evaluation.EvaluateTasks(ctx, catalogs, result.RouteThreshold, log); err != nil {
		return err
	}
	if err := writeLines(o.out, result.Outcomes); err != nil {
		return err
	}
	if o.json {
		return printJSON(out, result)
	}
	return printEvaluatedTasks(out, result)
}

func printEvaluatedTasks(out io.Writer, e evaluatedTasks) error {
	return printTable(out, func(w table) {
		fmt.Fprintf(w, "catalogs: %d, tools: %d, tasks: %d; shares in %% with 95 %% bootstrap intervals\n\nKIND\tTASKS\tFIRST\tIN THREE\tIN TEN\tREFUSED\tWRONG, SURE\tNOT RUN\tNOT RUN, OR NOT HARMLESS\n",
			len(e.Catalogs), e.Tools, len(e.Outcomes))
		for _, k := range e.Kinds {
			first, inThree, inTen := k.First.String(), k.InThree.String(), k.InTen.String()
			if k.Name == "none" {
				first, inThree, inTen = "–", "–", "–"
			}
			w.row(k.Name, k.Tasks, first, inThree, inTen, k.Refused, k.WrongAndSure, k.NotRun, k.NotRunOrUnfit)
		}
		fmt.Fprintf(w, "\nCATALOG\tWITH A TOOL\tFIRST\tIN THREE\tREFUSED\n")
		for _, c := range e.Catalogs {
			w.row(c.Name, c.Tasks, math.Round(100*c.First.Value), math.Round(100*c.InThree.Value), math.Round(100*c.Refused.Value))
		}
		fmt.Fprintf(w, "\nFIRST, IN THREE, IN TEN: the best right tool of the answer, refused or not.\nREFUSED: the answer abstains or is not sure (confidence below %.2f, or the next tool is about as likely).\nWRONG, SURE: the answer is sure, and its first tool is not right.\n", e.FindThreshold)
		fmt.Fprintf(w, "NOT RUN: route abstains or the confidence is below %.2f; the last column also counts tools that route does not run because they are not harmless.\n", e.RouteThreshold)
		fmt.Fprintf(w, "Expected calibration error of the confidence (ten bins of equal size): %.3f\n", e.CalibrationError)
	})
}

// A table has rows of cells, aligned by tabs.
type table struct{ *tabwriter.Writer }

func (t table) row(cells ...any) {
	for i, cell := range cells {
		if i > 0 {
			fmt.Fprint(t, "\t")
		}
		fmt.Fprint(t, cell)
	}
	fmt.Fprintln(t)
}

func printTable(out io.Writer, write func(table)) error {
	t := table{tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)}
	write(t)
	return t.Flush()
}

func printJSON(out io.Writer, v any) error {
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	return encoder.Encode(v)
}
