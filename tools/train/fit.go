package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/selector"
)

const (
	numFeatures = len(selector.Candidate{}.Features)
	numEvidence = len(selector.Candidate{}.Evidence)
)

// fitAll fits the weights of features and the confidence to natural tasks, to queries of corpora,
// and to synthetic catalogs, says how good they are for what was left out, and writes them into
// package rank. todo may also say "judge", to keep the weights; "drops" and "inputs",
// to say what each feature and each input of the confidence is worth.
func (t *trainer) fitAll(ctx context.Context, todo []string) error {
	f, err := newFitter(t.rank, !t.wordsOnly)
	if err != nil {
		return err
	}
	if t.holdout {
		return t.reportHeldOut(ctx)
	}
	began := time.Now()
	all, err := cached(t.samples, func() ([]sample, error) { return t.sampled(ctx) })
	if err != nil {
		return err
	}
	fmt.Printf("%d samples in %s\n", len(all), time.Since(began).Round(time.Second))
	printQualities("as it is", all)
	if slices.Contains(todo, "drops") {
		f.printDrops(all)
	}
	whole, of := f.crossWeightsUnless(slices.Contains(todo, "judge"), all)
	fmt.Println("weights")
	for i, name := range f.features {
		fmt.Printf("  %-20s %.3g\n", name, whole[i])
	}
	again := f.reordered(all, of)
	printQualities("fitted, each group by the weights fitted without it", again)

	some := verdicts(again)
	use := f.inputs()
	if slices.Contains(todo, "inputs") {
		printInputs(some, use, append(slices.Clone(f.evidence), f.features...))
	}
	j := judge(some, use)
	printReliability("confidence, each group by the fit without it", some)
	return f.write(t.learned, whole, j)
}

// reportHeldOut says how the program as it is ranks for the catalogs that nothing is fitted to.
func (t *trainer) reportHeldOut(ctx context.Context) error {
	scenes, err := naturalScenes(zap.NewNop(), t.natural, t.lists, true)
	if err != nil {
		return err
	}
	all, err := t.sampledAll(ctx, scenes)
	if err != nil {
		return err
	}
	printQualities("held out", all)
	return nil
}

// sampled searches in all scenes that something is fitted to.
func (t *trainer) sampled(ctx context.Context) ([]sample, error) {
	log := zap.NewNop()
	natural, err := naturalScenes(log, t.natural, t.lists, false)
	if err != nil {
		return nil, err
	}
	scenes := slices.Concat(natural, corpusScenes(t.corpora), smallScenes(t.corpora))
	if t.train != "" {
		servers, err := readPairs(t.train)
		if err != nil {
			return nil, err
		}
		more, err := syntheticScenes(log, servers)
		if err != nil {
			return nil, err
		}
		scenes = slices.Concat(scenes, strayScenes(natural, servers), more)
	}
	return t.sampledAll(ctx, scenes)
}
