package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"go/format"
	"maps"
	"math"
	"os"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/mcp-metarouter/metarouter/selector"
)

// fit fits the weights of features and the confidence to all sources, and writes them. For each source, it
// says how good the answers are by weights and a confidence that were fitted without it.
func (t *trainer) fit(ctx context.Context) error {
	all, err := t.cached(ctx)
	if err != nil {
		return err
	}
	r := newRankings(all)
	names := make(map[string]bool)
	for _, s := range all {
		names[s.Source] = true
	}
	sources := slices.Sorted(maps.Keys(names))
	left := make([][]answer, len(sources))
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i, source := range sources {
		g.Go(func() error {
			m := fitModel(r, all, source)
			for k := range all {
				if s := &all[k]; s.Source == source && len(s.Found) > 0 {
					left[i] = append(left[i], m.answer(s))
				}
			}
			return nil
		})
	}
	_ = g.Wait() // no task fails
	fmt.Println("each source by what was fitted without it")
	printAnswers(sources, left)
	return fitModel(r, all, "").write(t.learned)
}

// A model is all that is fitted.
type model struct {
	weights   features
	sharpness float64
	judgement
}

// sumOfWeights is the sum of the fitted weights of features. The weight of arguments, argumentWeight, was chosen for it.
const (
	sumOfWeights   = 9
	argumentWeight = 3
)

func fitModel(r *rankings, all []sample, without string) (m model) {
	var use []int
	for i := range argumentFeature {
		use = append(use, i)
	}
	m.weights = r.weights(without, use)
	for _, w := range m.weights {
		m.sharpness += w / sumOfWeights
	}
	for i := range m.weights {
		m.weights[i] /= m.sharpness
	}
	m.weights[argumentFeature] = argumentWeight
	m.judgement = judge(verdicts(m.reordered(all), without))
	return m
}

func (m *model) reordered(all []sample) []sample {
	again := slices.Clone(all)
	for i := range again {
		again[i].Found = selector.Reorder(again[i].Found, m.weights, m.sharpness)
	}
	return again
}

// An answer is how a sample was answered.
type answer struct {
	vain       bool
	rank       int // of the first right tool; 0 without
	confidence float64
	sure       bool
}

func (m *model) answer(s *sample) answer {
	found := selector.Reorder(s.Found, m.weights, m.sharpness)
	a := answer{vain: s.Vain, confidence: m.confidence(&found[0])}
	next := 0.0
	if len(found) > 1 {
		next = min(a.confidence, m.confidence(&found[1]))
	}
	const likelyToo = 0.8 // as in package rank
	a.sure = a.confidence >= selector.DefaultFindThreshold && next <= likelyToo*a.confidence
	for i, c := range found {
		if !s.Vain && a.rank == 0 && s.Query.Score(c.IDs()).MRR > 0 {
			a.rank = i + 1
		}
	}
	return a
}

func printAnswers(sources []string, left [][]answer) {
	fmt.Printf("%-14s %5s %6s %6s %6s %7s %11s %6s | %5s %7s %7s\n", "", "tasks", "first", "three", "ten", "unsure", "wrong, sure", "ECE", "none", "refused", "not run")
	row := func(name string, all []answer) {
		share := func(vain bool, is func(a answer) bool) float64 {
			n, hits := 0.0, 0.0
			for _, a := range all {
				if a.vain == vain {
					n++
					if is(a) {
						hits++
					}
				}
			}
			return hits / max(1, n)
		}
		some := slices.DeleteFunc(slices.Clone(all), func(a answer) bool { return a.vain })
		within := func(n int) func(a answer) bool { return func(a answer) bool { return a.rank > 0 && a.rank <= n } }
		fmt.Printf("%-14s %5d %6.3f %6.3f %6.3f %7.3f %11.3f %6.3f | %5d %7.3f %7.3f\n", name, len(some),
			share(false, within(1)), share(false, within(3)), share(false, within(10)), share(false, func(a answer) bool { return !a.sure }),
			share(false, func(a answer) bool { return a.sure && a.rank != 1 }), calibrationError(all), len(all)-len(some),
			share(true, func(a answer) bool { return !a.sure }), share(true, func(a answer) bool { return a.confidence < 0.5 }))
	}
	for i, name := range sources {
		row(name, left[i])
	}
	all := slices.Concat(left...)
	row("all", all)
	var natural []answer
	for i, name := range sources {
		if share(name) > 1 || name == noTool {
			natural = append(natural, left[i]...)
		}
	}
	row("natural", natural)
	printCurve(all)
}

const bins = 10

// printCurve prints how often the first tool is right, by the confidence in it.
func printCurve(all []answer) {
	fmt.Println("confidence, tasks, right")
	var n, sum, right [bins]float64
	for _, a := range all {
		b := min(bins-1, int(a.confidence*bins))
		n[b]++
		sum[b] += a.confidence
		if a.rank == 1 {
			right[b]++
		}
	}
	for b := range n {
		fmt.Printf("%.3f %5.0f %.3f\n", sum[b]/max(1, n[b]), n[b], right[b]/max(1, n[b]))
	}
}

// calibrationError is the expected calibration error of the confidence, over ten bins of the same size.
func calibrationError(all []answer) (off float64) {
	ordered := slices.Clone(all)
	slices.SortStableFunc(ordered, func(a, b answer) int { return cmp.Compare(a.confidence, b.confidence) })
	for b := range bins {
		sum := 0.0
		for _, a := range ordered[b*len(ordered)/bins : (b+1)*len(ordered)/bins] {
			sum += a.confidence
			if a.rank == 1 {
				sum--
			}
		}
		off += math.Abs(sum) / float64(max(1, len(ordered)))
	}
	return off
}

// write writes the model as a Go file of package rank. Nothing is written without a path.
func (m model) write(path string) error {
	var b bytes.Buffer
	table := func(names []string, values []float64) {
		for i, name := range names {
			if values[i] != 0 {
				fmt.Fprintf(&b, "%s: %.4g,\n", name, values[i])
			}
		}
	}
	b.WriteString("// Code generated by tools/train; DO NOT EDIT.\n\npackage rank\n\n// fitted is fitted to tasks with known tools.\nvar fitted = learned{\nweights: [NumFeatures]float64{\n")
	table(featureNames[:], m.weights[:])
	fmt.Fprintf(&b, "},\nsharpness: %.4g,\n", m.sharpness)
	for i, w := range []inputs{m.fitness, m.rightness} {
		fmt.Fprintf(&b, "%s: weights{\nbias: %.4g,\nevidence: [NumEvidence]float64{\n", []string{"fitness", "rightness"}[i], w[numInputs-1])
		table(evidenceNames[:], w[:numEvidence])
		b.WriteString("},\nfeatures: [NumFeatures]float64{\n")
		table(featureNames[:], w[numEvidence:])
		b.WriteString("},\n},\n")
	}
	b.WriteString("}\n")
	source, err := format.Source(b.Bytes())
	if err != nil {
		return fmt.Errorf("write weights: %w", err)
	}
	if path == "" {
		fmt.Printf("%s", source)
		return nil
	}
	return os.WriteFile(path, source, 0o644)
}
