package evaluate

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"

	"go.uber.org/zap/zapcore"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/console"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/exit"
	"github.com/mcp-metarouter/metarouter/selector"
)

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
	if o.Out != "" {
		if err := writeLines(o.Out, result.Outcomes); err != nil {
			return err
		}
	}
	if out.JSON {
		return out.PrintJSON(result)
	}
	return printEvaluatedTasks(out, result)
}

func printEvaluatedTasks(out *console.Console, e evaluatedTasks) error {
	return out.PrintTable(func(t console.Table) {
		w := t
		fmt.Fprintf(w, "catalogs: %d, tools: %d, tasks: %d; shares in %% with 95 %% bootstrap intervals\n\n", len(e.Catalogs), e.Tools, len(e.Outcomes))
		fmt.Fprintf(w, "KIND\tTASKS\tFIRST\tIN THREE\tREFUSED\tNOT RUN\tNOT RUN, OR NOT HARMLESS\n")
		for _, k := range e.Kinds {
			first, inThree := k.First.String(), k.InThree.String()
			if k.Name == "none" {
				first, inThree = "–", "–"
			}
			t.Row(k.Name, k.Tasks, first, inThree, k.Refused, k.NotRun, k.NotRunOrUnfit)
		}
		fmt.Fprintf(w, "\nCATALOG\tWITH A TOOL\tFIRST\tIN THREE\tREFUSED\n")
		for _, c := range e.Catalogs {
			t.Row(c.Name, c.Tasks, math.Round(100*c.First.Value), math.Round(100*c.InThree.Value), math.Round(100*c.Refused.Value))
		}
		fmt.Fprintf(w, "\nFIRST, IN THREE: the best right tool of the answer, refused or not.\n")
		fmt.Fprintf(w, "REFUSED: the answer abstains or is not sure (confidence below %.2f).\n", e.FindThreshold)
		fmt.Fprintf(w, "NOT RUN: route abstains or the confidence is below %.2f; the last column also counts tools that route does not run because they are not harmless.\n", e.RouteThreshold)
		fmt.Fprintf(w, "Expected calibration error of the confidence (ten bins of equal size): %.3f\n", e.CalibrationError)
	})
}
