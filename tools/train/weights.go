package main

import (
	"fmt"
	"math"
	"slices"

	"github.com/mcp-metarouter/metarouter/internal/evaluation"
	"github.com/mcp-metarouter/metarouter/selector"
)

type features = [numFeatures]float64

// A listing is a sample as the weights of features are fitted to it.
type listing struct {
	x      []features
	need   []int // of each candidate: the number of the need that it meets, −1 if it is wrong
	needs  int   // that any candidate meets
	weight float64
}

// listings leaves out samples without a right candidate, and those of the group.
func listings(all []sample, without string) (some []listing) {
	for _, s := range all {
		if s.group == without || s.kind == kindNone {
			continue
		}
		l := listing{weight: s.weight}
		numbers := make(map[string]int)
		for _, c := range s.found {
			need := -1
			for _, r := range s.query.Relevant {
				if slices.Contains(c.IDs(), r.Server+":"+r.Name) {
					key := r.Alternative
					if key == "" {
						key = c.Tool.ID
					}
					if _, ok := numbers[key]; !ok {
						numbers[key] = len(numbers)
					}
					need = numbers[key]
				}
			}
			l.x, l.need = append(l.x, c.Features), append(l.need, need)
		}
		if l.needs = len(numbers); l.needs > 0 {
			some = append(some, l)
		}
	}
	return some
}

// gradient adds that of the loss with the weights: for each need, minus the logarithm of the
// probability of the tools that meet it against all wrong ones.
func (l *listing) gradient(w, to *features) (loss float64) {
	exps, most := make([]float64, len(l.x)), math.Inf(-1)
	for i := range l.x {
		exps[i] = weighed(w, &l.x[i])
		most = max(most, exps[i])
	}
	sums := make([]float64, l.needs)
	wrong := 0.0
	for i, x := range exps {
		exps[i] = math.Exp(x - most)
		if l.need[i] < 0 {
			wrong += exps[i]
		} else {
			sums[l.need[i]] += exps[i]
		}
	}
	share := l.weight / float64(l.needs)
	ofWrong := 0.0 // the sum over needs of 1/(sum+wrong)
	for _, sum := range sums {
		ofWrong += 1 / (sum + wrong)
		loss -= share * math.Log(sum/(sum+wrong)+1e-300)
	}
	for i, e := range exps {
		by := e * ofWrong
		if n := l.need[i]; n >= 0 {
			by = e/(sums[n]+wrong) - e/(sums[n]+1e-300)
		}
		if by *= share; by != 0 {
			for f, x := range l.x[i] {
				to[f] += by * x
			}
		}
	}
	return loss
}

func weighed(w, x *features) (sum float64) {
	for i := range w {
		sum += w[i] * x[i]
	}
	return sum
}

const (
	fitSteps = 150
	fitRate  = 0.1
	ridge    = 2e-4
)

// A fitter knows the features and evidence of package rank.
type fitter struct {
	features, evidence []string // their names
	now                features // the weights of the program
	sentences          bool     // there are vectors of them
	still              []int    // features that the samples lack: their weights stay
	penalties          []int    // features whose weights are not positive; all others are not negative
}

func newFitter(folder string, sentences bool) (f *fitter, err error) {
	f = &fitter{now: selector.Weights(sentences), sentences: sentences}
	if f.features, f.evidence, err = rankNames(folder); err != nil {
		return nil, err
	}
	f.still = indexes(f.features, "ArgumentFeature")
	if !sentences {
		f.still = append(f.still, indexes(f.features, "MeaningFeature", "StepMeaningFeature")...)
	}
	f.penalties = indexes(f.features, "ConflictFeature", "NumberFeature")
	return f, nil
}

// fit finds the weights, none negative, by gradient descent (Adam) from some weights on. Those
// that off names are 0.
func (f *fitter) fit(some []listing, from features, off ...int) features {
	w := from
	for _, i := range append(slices.Clone(off), f.still...) {
		w[i] = 0
	}
	total := 0.0
	for i := range some {
		total += some[i].weight
	}
	var mean, square features
	for step := 1; step <= fitSteps; step++ {
		var g features
		for i := range some {
			some[i].gradient(&w, &g)
		}
		rate := fitRate * min(1, 2*float64(fitSteps-step)/fitSteps)
		for i := range w {
			if slices.Contains(off, i) || slices.Contains(f.still, i) {
				continue
			}
			slope := g[i]/total + 2*ridge*w[i]
			mean[i] = 0.9*mean[i] + 0.1*slope
			square[i] = 0.99*square[i] + 0.01*slope*slope
			m, v := mean[i]/(1-math.Pow(0.9, float64(step))), square[i]/(1-math.Pow(0.99, float64(step)))
			if w[i] -= rate * m / (math.Sqrt(v) + 1e-9); slices.Contains(f.penalties, i) == (w[i] > 0) {
				w[i] = 0
			}
		}
	}
	return w
}

// reordered ranks each sample by the weights that were fitted without its group.
func (f *fitter) reordered(all []sample, weights func(group string) features) []sample {
	again := slices.Clone(all)
	for i := range again {
		w, sharpness := f.scaled(weights(again[i].group))
		again[i].found = selector.Reorder(again[i].found, w, sharpness)
	}
	return again
}

// crossWeights fits the weights without each group. Groups of synthetic catalogs have the
// weights of all.
func (f *fitter) crossWeights(all []sample, off ...int) (whole features, of func(group string) features) {
	found := f.fit(listings(all, ""), f.startWeights(), off...)
	without := make(map[string]features)
	for _, s := range all {
		if _, ok := without[s.group]; !ok && s.origin != fromSynthetic {
			without[s.group] = f.halfway(f.fit(listings(all, s.group), found, off...))
		}
	}
	whole = f.halfway(found)
	return whole, func(group string) features {
		if w, ok := without[group]; ok {
			return w
		}
		return whole
	}
}

// halfway returns the means of the weights of the program and of the weights found. On what
// was left out, they do better than both.
func (f *fitter) halfway(found features) features {
	w, sharpness := f.scaled(found)
	for i, x := range f.now {
		w[i] = (w[i] + x) / 2 * sharpness
	}
	return w
}

// crossWeightsUnless is crossWeights, or the weights of the program.
func (f *fitter) crossWeightsUnless(keep bool, all []sample) (whole features, of func(group string) features) {
	if !keep {
		return f.crossWeights(all)
	}
	whole = f.now
	return whole, func(string) features { return whole }
}

// startWeights are those of the program, but none is 0.
func (f *fitter) startWeights() features {
	w := f.now
	for i := range w {
		switch {
		case slices.Contains(f.penalties, i):
			w[i] = min(w[i], -0.5)
		default:
			w[i] = max(w[i], 0.5)
		}
	}
	return w
}

// A quality is how good rankings are, weighted by sample.
type quality struct{ first, three, ndcg, tasks float64 }

// qualities returns them by origin and kind; corpora as their names say.
func qualities(all []sample) map[string]quality {
	sums := make(map[string]quality)
	add := func(key string, weight float64, s evaluation.Scores) {
		q := sums[key]
		q.tasks += weight
		q.ndcg += weight * s.NDCG10
		if s.MRR == 1 {
			q.first += weight
		}
		if s.MRR > 0.3 {
			q.three += weight
		}
		sums[key] = q
	}
	for _, s := range all {
		if s.kind == kindNone {
			continue
		}
		scores := s.query.Score(ids(s.found))
		add(s.origin, s.weight, scores)
		if s.origin == fromNatural {
			add(s.origin+": "+s.kind, 1, scores)
			add(s.origin+" in "+s.group, 1, scores)
		} else if s.origin != fromSynthetic {
			add(s.origin+": "+s.group, 1, scores)
		}
	}
	return sums
}

func printQualities(title string, all []sample) {
	fmt.Printf("%s\n%-40s %6s %6s %7s\n", title, "", "first", "three", "nDCG@10")
	sums := qualities(all)
	for _, key := range sortedKeys(sums) {
		q := sums[key]
		fmt.Printf("%-40s %6.3f %6.3f %7.3f\n", key, q.first/q.tasks, q.three/q.tasks, q.ndcg/q.tasks)
	}
}

// printDrops prints what each feature of the program is worth: what is lost without it.
func (f *fitter) printDrops(all []sample) {
	fmt.Printf("without a feature, as it is\n%-20s %8s %8s %8s\n", "", "first", "three", "corpora")
	ranked := func(w features) map[string]quality {
		return qualities(f.reordered(all, func(string) features { return w }))
	}
	before := ranked(f.now)
	for i, name := range f.features {
		w := f.now
		if w[i] = 0; slices.Contains(f.still, i) {
			continue
		}
		after := ranked(w)
		fmt.Printf("%-20s", name)
		for _, m := range []struct {
			key string
			of  func(quality) float64
		}{
			{fromNatural, func(q quality) float64 { return q.first }}, {fromNatural, func(q quality) float64 { return q.three }},
			{fromCorpora, func(q quality) float64 { return q.ndcg }},
		} {
			a, b := after[m.key], before[m.key]
			fmt.Printf(" %+8.4f", m.of(a)/a.tasks-m.of(b)/b.tasks)
		}
		fmt.Println()
	}
}
