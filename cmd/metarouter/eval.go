package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/mcp-metarouter/metarouter/internal/evaluation"
	"github.com/mcp-metarouter/metarouter/internal/vectors"
	"github.com/mcp-metarouter/metarouter/selector"
)

// An evaluated is the answer of eval.
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

func (a *app) eval() *cobra.Command {
	var catalogs []string
	var queries, out string
	var limit int
	cmd := a.jsonFlag(leaf("eval --catalog FILE --queries FILE", "Measure how well tools are found, without any server",
		`  metarouter eval --catalog tools.jsonl --queries queries.jsonl
  metarouter eval --catalog a.jsonl --catalog b.jsonl --queries q.jsonl -k 50 --out rankings.jsonl`,
		cobra.NoArgs, func(ctx context.Context, _ []string) error {
			switch {
			case len(catalogs) == 0 || queries == "":
				return usage(errors.New("write --catalog FILE, with {server, name, description, input_schema} in each line, and --queries FILE, with {id, query, relevant: [{server, name}]}"))
			case limit < 1:
				return usage(fmt.Errorf("-k %d: write 1 or more", limit))
			}
			log, err := a.log(zapcore.WarnLevel)
			if err != nil {
				return err
			}
			all, err := evaluation.ReadQueries(queries)
			if err != nil {
				return usage(err)
			}
			result, rankings, err := evaluate(ctx, log, catalogs, all, limit)
			if err != nil {
				return err
			}
			if out != "" {
				if err := writeLines(out, rankings); err != nil {
					return err
				}
			}
			if a.json {
				return a.printJSON(result)
			}
			return a.printEvaluated(result)
		}))
	flags := cmd.Flags()
	flags.StringArrayVar(&catalogs, "catalog", nil, "`file` with a tool in each line; repeatable")
	flags.StringVar(&queries, "queries", "", "`file` with a query in each line")
	flags.StringVar(&out, "out", "", "`file` for the rankings")
	flags.IntVarP(&limit, "limit", "k", 10, "the most tools in a ranking")
	return cmd
}

// evaluate ranks the tools of the catalogs for each query.
func evaluate(ctx context.Context, log *zap.Logger, catalogs []string, queries []evaluation.Query, limit int) (result evaluated, rankings []evaluation.Ranking, err error) {
	tools, err := evaluation.ReadCatalog(log, catalogs...)
	if err != nil {
		return result, nil, usage(err)
	}
	r, err := evaluation.Register(tools, vectors.Embedded(), log)
	if err != nil {
		return result, nil, err
	}
	defer r.Close()
	s := selector.New(r, nil, "", log)
	if _, err := s.Find(ctx, selector.Query{Task: "index"}); err != nil { // not to be measured
		return result, nil, err
	}
	scores := make([]evaluation.Scores, len(queries))
	times := make([]time.Duration, len(queries))
	for i := range queries {
		began := time.Now()
		found, err := s.Find(ctx, selector.Query{Task: queries[i].Text, Limit: limit})
		if err != nil {
			return result, nil, err
		}
		times[i] = time.Since(began)
		ranking := evaluation.Ranking{ID: queries[i].ID, Ranked: []string{}}
		for _, c := range found.Candidates {
			ranking.Ranked = append(ranking.Ranked, c.Tool.ID)
		}
		scores[i] = queries[i].Score(ranking.Ranked)
		rankings = append(rankings, ranking)
	}
	result = evaluated{Tools: len(tools), Queries: len(queries), Scores: evaluation.Mean(scores)}
	if slices.Sort(times); len(times) > 0 {
		result.Median, result.P99 = milliseconds(times[len(times)/2]), milliseconds(times[len(times)*99/100])
	}
	return result, rankings, nil
}

func writeLines(path string, rankings []evaluation.Ranking) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w := bufio.NewWriter(f)
	lines := json.NewEncoder(w)
	for _, r := range rankings {
		if err := lines.Encode(r); err != nil {
			return err
		}
	}
	return w.Flush()
}

func (a *app) printEvaluated(e evaluated) error {
	return a.table(func(w *tabwriter.Writer) {
		fmt.Fprintf(w, "%d tools, %d queries\n", e.Tools, e.Queries)
		for _, row := range []struct {
			name  string
			value float64
		}{
			{"Recall@1", e.Recall1}, {"Recall@3", e.Recall3}, {"Recall@5", e.Recall5}, {"Recall@10", e.Recall10},
			{"nDCG@5", e.NDCG5}, {"nDCG@10", e.NDCG10}, {"MRR", e.MRR}, {"mAP@10", e.MAP10},
		} {
			fmt.Fprintf(w, "%s\t%.3f\n", row.name, row.value)
		}
		fmt.Fprintf(w, "p50\t%.2f ms\np99\t%.2f ms\n", float64(e.Median)/1e6, float64(e.P99)/1e6)
	})
}
