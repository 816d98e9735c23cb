package main

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/mcp-metarouter/metarouter/selector"
)

// choose says what each feature brings to the features named. The weights are fitted to all sources of
// tasks but one, and the ranking of that one is scored, for each in turn. A row has the points of nDCG@10
// that a feature of these brings, or that another one would bring.
func (t *trainer) choose(ctx context.Context, named []string) error {
	f, err := newFitter(t.rank, true)
	if err != nil {
		return err
	}
	chosen := indexes(f.features, named...)
	if len(chosen) == 0 || len(chosen) < len(named) {
		return fmt.Errorf("choose: write names of features: %s", strings.Join(f.features, ", "))
	}
	all, err := cached(t.samples, func() ([]sample, error) { return t.sources(ctx) })
	if err != nil {
		return err
	}
	c := newChooser(f, all)
	base, err := c.scores(chosen)
	if err != nil {
		return err
	}
	c.printTitle()
	c.print(fmt.Sprintf("%d features", len(chosen)), base, "%.1f")
	for i, name := range f.features {
		if slices.Contains(f.still, i) {
			continue
		}
		has := slices.Contains(chosen, i)
		other := slices.DeleteFunc(slices.Clone(chosen), func(k int) bool { return k == i })
		if !has {
			other = append(other, i)
		}
		scores, err := c.scores(other)
		if err != nil {
			return err
		}
		for k := range scores {
			if scores[k] -= base[k]; has {
				scores[k] = -scores[k]
			}
		}
		if !has {
			name = "would add " + name
		}
		c.print(name, scores, "%+.1f")
	}
	return nil
}

// sources returns samples of all sources. Of the siblings, those with an even number are left out: they are
// for reports only.
func (t *trainer) sources(ctx context.Context) ([]sample, error) {
	log := zap.NewNop()
	natural, err := naturalScenes(log, t.natural, t.lists, false)
	if err != nil {
		return nil, err
	}
	siblings, err := naturalScenes(log, t.siblings, t.lists, false)
	if err != nil {
		return nil, err
	}
	for _, s := range siblings {
		s.asks = slices.DeleteFunc(s.asks, func(a ask) bool { return isHeldOut(a.ID) })
	}
	servers, err := readPairs(t.train)
	if err != nil {
		return nil, err
	}
	apis, err := syntheticScenes(log, servers)
	if err != nil {
		return nil, err
	}
	return t.sampledAll(ctx, slices.Concat(natural, siblings, corpusScenes(t.corpora), apis[:apiCatalogs]))
}

const apiCatalogs = 30 // of synthetic catalogs

// isHeldOut reports whether nothing is fitted to the task of a sibling.
func isHeldOut(id string) bool { return (id[len(id)-1]-'0')%2 == 0 }

// sourceOf returns the name of the source of a sample.
func sourceOf(s *sample) string {
	switch {
	case s.origin == fromNatural:
		return s.kind
	case s.origin == fromSynthetic:
		return "apis"
	case s.group != "large" && (strings.HasPrefix(s.query.ID, "lmb-route") || strings.HasPrefix(s.query.ID, "lmb-step")):
		return "substeps" // of agents
	}
	return s.group
}

// shared reports whether two sources have queries in common.
func shared(a, b string) bool {
	parts := []string{"substeps", "livemcpbench", "mcpbench"}
	return a == b || a == "large" && slices.Contains(parts, b) || b == "large" && slices.Contains(parts, a)
}

// A chooser has the samples of sources.
type chooser struct {
	*fitter
	names    []string
	samples  map[string][]sample
	listings map[string][]listing // of the same weight for each source
}

func newChooser(f *fitter, all []sample) *chooser {
	c := &chooser{fitter: f, samples: make(map[string][]sample), listings: make(map[string][]listing)}
	for _, s := range all {
		if s.kind != kindNone {
			name := sourceOf(&s)
			c.samples[name] = append(c.samples[name], s)
		}
	}
	for name, some := range c.samples {
		c.listings[name] = listings(some, "")
		for i := range c.listings[name] {
			c.listings[name][i].weight = 1 / float64(len(c.listings[name]))
		}
	}
	c.names = sortedKeys(c.samples)
	return c
}

// scores returns the nDCG@10 of each source, in points, by weights of the features that are fitted to the
// other sources.
func (c *chooser) scores(use []int) ([]float64, error) {
	scores := make([]float64, len(c.names))
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for k, out := range c.names {
		g.Go(func() error {
			var some []listing
			for _, name := range c.names {
				if !shared(name, out) {
					some = append(some, c.listings[name]...)
				}
			}
			w := c.fitOnly(some, use)
			for i := range c.samples[out] {
				scores[k] += 100 * rescored(&c.samples[out][i], &w) / float64(len(c.samples[out]))
			}
			return nil
		})
	}
	return scores, g.Wait()
}

// fitOnly fits the weights of the features from equal ones on; all others are 0.
func (f *fitter) fitOnly(some []listing, use []int) (w features) {
	var off []int
	for i := range w {
		if w[i] = 0.5; slices.Contains(f.penalties, i) {
			w[i] = -0.5
		}
		if !slices.Contains(use, i) {
			off = append(off, i)
		}
	}
	return f.fit(some, w, off...)
}

// rescored returns the nDCG@10 of a sample in the order by the weights.
func rescored(s *sample, w *features) float64 {
	scores := make(map[string]float64, len(s.found))
	for _, c := range s.found {
		scores[c.Tool.ID] = weighed(w, &c.Features)
	}
	found := slices.Clone(s.found)
	slices.SortFunc(found, func(a, b selector.Candidate) int {
		return cmp.Or(cmp.Compare(scores[b.Tool.ID], scores[a.Tool.ID]), cmp.Compare(a.Tool.ID, b.Tool.ID))
	})
	return s.query.Score(ids(found)).NDCG10
}

func (c *chooser) printTitle() {
	fmt.Printf("%-30s %6s %6s", "", "mean", "worst")
	for _, name := range c.names {
		fmt.Printf(" %*s", max(6, len(name)), name)
	}
	fmt.Printf("\n%-44s", "tasks")
	for _, name := range c.names {
		fmt.Printf(" %*d", max(6, len(name)), len(c.samples[name]))
	}
	fmt.Println()
}

func (c *chooser) print(title string, scores []float64, form string) {
	sum, worst := 0.0, math.Inf(1)
	for _, x := range scores {
		sum += x / float64(len(scores))
		worst = min(worst, x)
	}
	fmt.Printf("%-30s %6s %6s", title, fmt.Sprintf(form, sum), fmt.Sprintf(form, worst))
	for i, x := range scores {
		fmt.Printf(" %*s", max(6, len(c.names[i])), fmt.Sprintf(form, x))
	}
	fmt.Println()
}
