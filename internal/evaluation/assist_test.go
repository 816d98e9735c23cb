package evaluation

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/selector"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

type scripted func(ctx context.Context, task string, choices []string) (int, error)

func (s scripted) Choose(ctx context.Context, task string, choices []string) (int, error) {
	return s(ctx, task, choices)
}

// TestAssistOnTasks says how far a model to ask can get: none, one that is right whenever a right
// tool is shown to it, and one that chooses at random. METAROUTER_TASKS names folders with
// catalog.json and tasks.jsonl, and METAROUTER_LISTS the folder of the recorded lists.
//
//	METAROUTER_TASKS=DIR:DIR METAROUTER_LISTS=DIR go test -v -run AssistOnTasks ./internal/evaluation
func TestAssistOnTasks(t *testing.T) {
	folders := filepath.SplitList(os.Getenv("METAROUTER_TASKS"))
	if len(folders) == 0 {
		t.Skip("METAROUTER_TASKS is not set")
	}
	var catalogs []TaskCatalog
	for _, folder := range folders {
		c, err := ReadTasks(zap.NewNop(), filepath.Join(folder, "catalog.json"), filepath.Join(folder, "tasks.jsonl"), os.Getenv("METAROUTER_LISTS"))
		expect.OK(t, err)
		catalogs = append(catalogs, c)
	}
	random := rand.New(rand.NewPCG(1, 2))
	for _, model := range []struct {
		name string
		of   func(Task) selector.Assistant
	}{
		{"no model", func(Task) selector.Assistant { return nil }},
		{"a perfect model", func(task Task) selector.Assistant {
			return scripted(func(_ context.Context, _ string, choices []string) (int, error) {
				return slices.IndexFunc(choices, func(c string) bool {
					return slices.ContainsFunc(task.Right, func(id string) bool { return strings.HasPrefix(c, id+": ") })
				}), nil
			})
		}},
		{"a random model", func(Task) selector.Assistant {
			return scripted(func(_ context.Context, _ string, choices []string) (int, error) {
				return random.IntN(len(choices)+1) - 1, nil
			})
		}},
	} {
		for _, threshold := range []float64{selector.DefaultFindThreshold, 0.5} {
			var all []Outcome
			asked, harmful := 0, 0
			for _, c := range catalogs {
				all = append(all, assistOn(t, c, model.of, threshold, &asked, &harmful)...)
			}
			t.Logf("%s, asked below %.2f: for %d of %d tasks; %d harmful tools would run", model.name, threshold, asked, len(all), harmful)
			for _, k := range Summarize(all).Kinds {
				t.Logf("  %-16s %3d  first %s  in three %s  refused %s  not run %s", k.Name, k.Tasks, k.First, k.InThree, k.Refused, k.NotRun)
			}
			if harmful > 0 {
				t.Errorf("%s: %d harmful tools would run", model.name, harmful)
			}
		}
	}
}

// assistOn searches for the tasks of one catalog, and counts how often the model is asked and how
// often a route would run a tool that is not harmless.
func assistOn(t *testing.T, c TaskCatalog, model func(Task) selector.Assistant, threshold float64, asked, harmful *int) (all []Outcome) {
	r, err := Register(c.Tools)
	expect.OK(t, err)
	s := selector.New(r, selector.Options{})
	defer s.Close()
	for _, task := range c.Tasks {
		q := selector.Query{Task: task.Text, Threshold: threshold}
		if a := model(task); a != nil {
			q.Assistant = scripted(func(ctx context.Context, words string, choices []string) (int, error) {
				*asked++
				return a.Choose(ctx, words, choices)
			})
		}
		found, err := s.Find(t.Context(), q)
		expect.OK(t, err)
		o := outcome(c.Name, task, found, 0.5)
		all = append(all, o)
		if !o.IdleOrHarm {
			if ok, _ := selector.Harmless(found.Candidates[0].Tool); !ok {
				*harmful++
			}
		}
	}
	return all
}
