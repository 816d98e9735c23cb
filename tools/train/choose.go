package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/mcp-metarouter/metarouter/selector"
)

// choose says how much each feature brings to the features named. The weights are fitted to all sources of
// tasks but one, and the ranking of that one is scored, for each in turn. A row has the points of nDCG@10
// that a feature of these brings, or that another one would bring.
func (t *trainer) choose(ctx context.Context, named []string) error {
	var chosen []int
	for _, name := range named {
		i := slices.Index(featureNames[:], name)
		if i < 0 {
			return fmt.Errorf("choose: no feature is named %s; write names of %q", name, featureNames)
		}
		chosen = append(chosen, i)
	}
	all, err := t.cached(ctx)
	if err != nil {
		return err
	}
	r := newRankings(all)
	base := r.scores(chosen)
	r.printTitle()
	r.print(fmt.Sprintf("%d features", len(chosen)), base, "%.1f")
	for i, name := range featureNames {
		other, by := slices.DeleteFunc(slices.Clone(chosen), func(k int) bool { return k == i }), -1.0
		if len(other) == len(chosen) {
			other, by, name = append(other, i), 1, "would add "+name
		}
		scores := r.scores(other)
		for k := range scores {
			scores[k] = by * (scores[k] - base[k])
		}
		r.print(name, scores, "%+.1f")
	}
	return nil
}

// rankings are the samples of sources that weights are fitted to.
type rankings struct {
	names    []string
	samples  map[string][]sample
	listings map[string][]listing // of the same weight for each source
}

func newRankings(all []sample) *rankings {
	r := &rankings{samples: make(map[string][]sample), listings: make(map[string][]listing)}
	for _, s := range all {
		if s.Ranks && !s.Vain {
			r.samples[s.Source] = append(r.samples[s.Source], s)
		}
	}
	for name, some := range r.samples {
		r.listings[name] = listings(some)
	}
	r.names = slices.Sorted(maps.Keys(r.samples))
	return r
}

// weights returns the weights of the features, fitted to all sources but one; "" leaves no source out.
func (r *rankings) weights(without string, use []int) features {
	var some []listing
	for _, name := range r.names {
		if !shared(name, without) {
			some = append(some, r.listings[name]...)
		}
	}
	return fitWeights(some, use)
}

// scores returns the nDCG@10 of each source, in points, by weights of the features that are fitted to the
// other sources.
func (r *rankings) scores(use []int) []float64 {
	scores := make([]float64, len(r.names))
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for k, out := range r.names {
		g.Go(func() error {
			w := r.weights(out, use)
			for i := range r.samples[out] {
				scores[k] += 100 * rescored(&r.samples[out][i], &w) / float64(len(r.samples[out]))
			}
			return nil
		})
	}
	_ = g.Wait() // no task fails
	return scores
}

// rescored returns the nDCG@10 of a sample in the order by the weights.
func rescored(s *sample, w *features) float64 {
	scores := make(map[string]float64, len(s.Found))
	for _, c := range s.Found {
		scores[c.Tool.ID] = weighed(w, &c.Features)
	}
	found := slices.Clone(s.Found)
	slices.SortFunc(found, func(a, b selector.Candidate) int {
		return cmp.Or(cmp.Compare(scores[b.Tool.ID], scores[a.Tool.ID]), cmp.Compare(a.Tool.ID, b.Tool.ID))
	})
	return s.Query.Score(ids(found)).NDCG10
}

func (r *rankings) printTitle() {
	fmt.Printf("%-30s %6s %6s", "", "mean", "worst")
	for _, name := range r.names {
		fmt.Printf(" %*s", max(6, len(name)), name)
	}
	fmt.Printf("\n%-44s", "tasks")
	for _, name := range r.names {
		fmt.Printf(" %*d", max(6, len(name)), len(r.samples[name]))
	}
	fmt.Println()
}

func (r *rankings) print(title string, scores []float64, form string) {
	sum, worst := 0.0, math.Inf(1)
	for _, x := range scores {
		sum += x / float64(len(scores))
		worst = min(worst, x)
	}
	fmt.Printf("%-30s %6s %6s", title, fmt.Sprintf(form, sum), fmt.Sprintf(form, worst))
	for i, x := range scores {
		fmt.Printf(" %*s", max(6, len(r.names[i])), fmt.Sprintf(form, x))
	}
	fmt.Println()
}
