package selector

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-metarouter/metarouter/registry"
)

// A scripted is an Assistant that does what a test says.
type scripted func(ctx context.Context, task string, choices []string) (int, error)

func (s scripted) Choose(ctx context.Context, task string, choices []string) (int, error) {
	return s(ctx, task, choices)
}

// picks returns an Assistant that chooses the tool wherever it is shown, and none if it is not.
func picks(id string) scripted {
	return func(_ context.Context, _ string, choices []string) (int, error) {
		return slices.IndexFunc(choices, func(c string) bool { return strings.HasPrefix(c, id+": ") }), nil
	}
}

// ranking returns candidates t0, t1 … with falling confidence, that of the first one as given.
func ranking(n int, first float64) []Candidate {
	all := make([]Candidate, n)
	for i := range all {
		id := fmt.Sprintf("s:t%d", i)
		all[i] = Candidate{Tool: &registry.NormalizedTool{ID: id, Description: "does " + id}, Score: float64(n - i), Confidence: first / float64(i+1)}
	}
	return all
}

func TestAsk(t *testing.T) {
	never := scripted(func(context.Context, string, []string) (int, error) {
		t.Error("the model is asked")
		return 0, nil
	})
	says := func(i int, err error) scripted {
		return func(context.Context, string, []string) (int, error) { return i, err }
	}
	for _, test := range []struct {
		name      string
		assistant Assistant
		first     float64 // confidence
		threshold float64
		want      string // the first tool
		asked     bool
	}{
		{"sure", never, 0.5, 0.5, "s:t0", false},
		{"no model", nil, 0.1, 0.5, "s:t0", false},
		{"just sure", never, 0.25, 0.25, "s:t0", false},
		{"just not sure", picks("s:t3"), 0.2499, 0.25, "s:t3", true},
		{"the first is right", picks("s:t0"), 0.4, 0.5, "s:t0", true},
		{"the last that is shown", picks("s:t19"), 0.4, 0.5, "s:t19", true},
		{"not shown", picks("s:t20"), 0.4, 0.5, "s:t0", false},
		{"none", says(-1, nil), 0.4, 0.5, "s:t0", false},
		{"out of range", says(99, nil), 0.4, 0.5, "s:t0", false},
		{"fails", says(3, errors.New("no")), 0.4, 0.5, "s:t0", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			ranked := ranking(25, test.first)
			before := ids(ranked)
			if got := ask(t.Context(), Query{Task: "x", Threshold: test.threshold, Assistant: test.assistant}, ranked); got != test.asked {
				t.Errorf("ask = %v", got)
			}
			if ranked[0].Tool.ID != test.want {
				t.Errorf("%s is first, want %s", ranked[0].Tool.ID, test.want)
			}
			after := ids(ranked)
			for i := range ranked[1:] {
				if ranked[i+1].Confidence > ranked[i].Confidence {
					t.Errorf("the confidence grows from %v to %v", ranked[i], ranked[i+1])
				}
			}
			if test.asked && ranked[0].Confidence != chosenConfidence || !test.asked && ranked[0].Confidence != test.first {
				t.Errorf("confidence %v", ranked[0].Confidence)
			}
			slices.Sort(before)
			slices.Sort(after)
			if !slices.Equal(before, after) {
				t.Errorf("the candidates changed from %v to %v", before, after)
			}
		})
	}
}

func ids(ranked []Candidate) (all []string) {
	for _, c := range ranked {
		all = append(all, c.Tool.ID)
	}
	return all
}

// A model that does not answer delays a search by assistWait and no longer.
func TestAskWaitsNotLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now() // of the bubble
		hangs := scripted(func(ctx context.Context, _ string, _ []string) (int, error) {
			<-ctx.Done()
			return 3, context.Cause(ctx)
		})
		ranked := ranking(5, 0.1)
		if ask(t.Context(), Query{Task: "x", Threshold: 0.5, Assistant: hangs}, ranked) || ranked[0].Tool.ID != "s:t0" {
			t.Errorf("%v", ids(ranked))
		}
		if took := time.Since(began); took != assistWait {
			t.Errorf("it took %v", took)
		}
	})
}

// A search that is not sure asks, says so, and is no abstention then; a sure one, an empty one
// and the steps of a plan ask no one.
func TestFindAsks(t *testing.T) {
	s := picker(t, append(slices.Clone(browser), git...)...)
	find := func(task string, a Assistant) Ranking {
		found, err := s.Find(t.Context(), Query{Task: task, Threshold: 0.999, Assistant: a})
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	asked := 0
	counting := scripted(func(context.Context, string, []string) (int, error) { asked++; return -1, nil })
	const task = "paint the branches of a tree with a difference"
	before := find(task, counting)
	if asked != 1 || before.By != byRanking || len(before.Candidates) < 3 {
		t.Fatalf("asked %d times: %+v", asked, before)
	}
	third := before.Candidates[2].Tool.ID
	after := find(task, picks(third))
	if after.By != byModel || after.Abstained || after.Candidates[0].Tool.ID != third {
		t.Errorf("by %q, abstained %v, first %v, want %s", after.By, after.Abstained, ids(after.Candidates), third)
	}
	selection, err := s.Select(t.Context(), Query{Task: task, Threshold: 0.999, Assistant: picks(third)})
	if err != nil || selection.By != byModel || selection.Tool.ID != third || len(selection.Alternatives) < 2 {
		t.Errorf("%v, %+v", err, selection)
	}
	asked = 0
	find("", counting)
	if _, err := s.Plan(t.Context(), Query{Task: "paint a tree, then sing a song", Threshold: 0.999, Assistant: counting}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Find(t.Context(), Query{Task: "take a screenshot of the page", Threshold: 0.01, Assistant: counting}); err != nil {
		t.Fatal(err)
	}
	if asked != 0 {
		t.Errorf("asked %d times", asked)
	}
}

// A model that chooses at random runs no tool that is not harmless.
func TestRandomChoiceRunsNothingHarmful(t *testing.T) {
	s, r := filled(t, append(slices.Clone(browser), git...)...)
	harmless := true
	for _, tool := range r.Snapshot().Tools() {
		if tool.Server == "git" {
			tool.Hints.ReadOnly = &harmless // only this test has the snapshot
		}
	}
	p := provider{Selector: encode(t, s)}
	anything := scripted(func(_ context.Context, _ string, choices []string) (int, error) {
		return rand.IntN(len(choices)+3) - 1, nil
	})
	ran := make(map[string]int) // by server
	for range 200 {
		routed, err := Route(t.Context(), &p, RouteRequest{Query: Query{Task: "knit the grey sweater of an old friend", Assistant: anything}, Threshold: 0.6})
		if err != nil {
			t.Fatal(err)
		}
		if routed.Ran {
			ran[routed.Selection.Tool.Server]++
			if ok, _ := Harmless(routed.Selection.Tool); !ok || routed.Selection.By != byModel {
				t.Errorf("ran %s by %s", routed.Selection.Tool.ID, routed.Selection.By)
			}
		}
	}
	if ran["git"] == 0 || len(ran) > 1 {
		t.Errorf("ran %v", ran)
	}
}

// A provider selects as a Selector, and executes nothing.
type provider struct{ *Selector }

func (p *provider) Check(_ context.Context, _ *registry.NormalizedTool, args json.RawMessage) Checked {
	return Checked{Arguments: args}
}

func (p *provider) Execute(context.Context, Call) (Result, error) { return Result{}, nil }
