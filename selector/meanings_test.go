package selector

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/mcp-metarouter/metarouter/internal/encoder"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector/internal/rank"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

const picture = "make a picture of what I see" // no word of the tool for it

// Vectors find a tool that has no word of the task.
func TestMeanings(t *testing.T) {
	s := picker(t, append(slices.Clone(browser), git...)...)
	found, err := s.Find(t.Context(), Query{Task: picture})
	if err != nil || found.By != byRanking || found.Candidates[0].Tool.Name != "browser_take_screenshot" {
		t.Fatalf("found %v by %s, %v", ids(found.Candidates), found.By, err)
	}
	f := found.Candidates[0].Features
	if f[rank.MeaningFeature] != f[rank.StepMeaningFeature] || f[rank.MeaningFeature] <= 0.1 || f[rank.MeaningFeature] > 1 {
		t.Errorf("features %v", f)
	}
}

// A search that can't wait for the vectors goes by words, says so, and still lists five tools; the next one has
// them.
func TestSearchBeforeVectors(t *testing.T) {
	lines := append(slices.Clone(browser), git...)
	for i := range 2 * alwaysEncoded {
		lines = append(lines, fmt.Sprintf("other:tool_%d Does %d", i, i))
	}
	s := picker(t, lines...)
	s.meanings.patience = 0
	for _, task := range []string{"take a screenshot of the page", "zorbl"} {
		found, err := s.Find(t.Context(), Query{Task: task})
		if err != nil || found.By != ByWords || len(found.Candidates) < fewest || found.Candidates[0].Features[rank.MeaningFeature] != 0 {
			t.Errorf("%q: found %v by %s, %v", task, ids(found.Candidates), found.By, err)
		}
	}
	expect.OK(t, s.Encode(t.Context()))
	if v := s.meanings.tools.Load(); v == nil || len(v.of.Documents()) != len(lines) {
		t.Error("the next search makes the matrix of the tools again")
	}
	if found, err := s.Find(t.Context(), Query{Task: picture}); err != nil || found.By != byRanking {
		t.Errorf("found by %s, %v", found.By, err)
	}
}

// Nothing is likely, and the nearest five are listed.
func TestNeverNothing(t *testing.T) {
	s := picker(t, append(slices.Clone(browser), git...)...)
	for _, task := range []string{"How do I get by car from Wien Hauptbahnhof to Bratislava Airport?", "the", "?!…", "drain node gke-1"} {
		found, err := s.Find(t.Context(), Query{Task: task})
		if err != nil || len(found.Candidates) < fewest || found.Sure {
			t.Errorf("%q: %v, sure %v, %v", task, ids(found.Candidates), found.Sure, err)
		}
		if chosen, err := s.Select(t.Context(), Query{Task: task}); err != nil || chosen.Sure || chosen.Abstained != (chosen.Tool == nil) {
			t.Errorf("%q: selected %v, sure %v, %v", task, chosen.Tool, chosen.Sure, err)
		}
	}
}

// Tools that are added are encoded by the next search, and the vectors of the others are kept.
func TestNewTools(t *testing.T) {
	s, r := filled(t, git...)
	_, err := s.Find(t.Context(), Query{Task: "commit"})
	expect.OK(t, err)
	var tools []registry.NormalizedTool
	for _, line := range browser {
		tools = append(tools, parseTool(line))
	}
	_, err = r.Replace(tools[0].Server, registry.Offer{Tools: tools})
	expect.OK(t, err)
	found, err := s.Find(t.Context(), Query{Task: picture})
	if err != nil || found.By != byRanking || found.Candidates[0].Tool.Name != "browser_take_screenshot" {
		t.Errorf("found %v, %v", ids(found.Candidates), err)
	}
}

// Run encodes after the first search, and keeps the vectors for the next start.
func TestRunEncodes(t *testing.T) {
	folder := t.TempDir()
	_, r := filled(t, git...)
	s := New(r, Options{Vectors: encoder.OpenStore(encoder.Tool, folder)})
	ctx, cancel := context.WithCancel(t.Context())
	ran := make(chan error)
	go func() { ran <- s.Run(ctx) }()
	_, err := s.Find(t.Context(), Query{Task: "commit"})
	expect.OK(t, err)
	expect.OK(t, s.Encode(t.Context()))
	cancel()
	expect.OK(t, <-ran)
	again := New(r, Options{Vectors: encoder.OpenStore(encoder.Tool, folder)})
	defer again.Close()
	again.meanings.patience = 0
	if found, err := again.Find(t.Context(), Query{Task: "commit"}); err != nil || found.By != byRanking {
		t.Errorf("found by %s, %v", found.By, err)
	}
}

// A process that ends after a search keeps the vectors that it made, so that the next one goes on.
func TestEncodeKeepsWhatItHas(t *testing.T) {
	folder := t.TempDir()
	_, r := filled(t, git...)
	once := New(r, Options{Vectors: encoder.OpenStore(encoder.Tool, folder)})
	_, err := once.Find(t.Context(), Query{Task: "commit"})
	expect.OK(t, errors.Join(err, once.Close()))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := once.Encode(ended); err == nil {
		t.Error("no error of a closed index")
	}
	if files, err := os.ReadDir(folder); len(files) != 1 {
		t.Errorf("%v, %v", files, err)
	}
}

// Whether an answer is sure does not depend on how many tools are asked for.
func TestSureOfOne(t *testing.T) {
	s := picker(t, append([]string{"a:read_file Reads a file", "b:read_the_file Reads a file"}, browser...)...)
	many, err := s.Find(t.Context(), Query{Task: "read the file"})
	if err != nil || many.Sure || many.Candidates[0].Confidence < DefaultFindThreshold {
		t.Fatalf("sure: %v, %v, %v", many.Sure, many.Candidates[0].Confidence, err)
	}
	one, err := s.Find(t.Context(), Query{Task: "read the file", Limit: 1})
	if err != nil || len(one.Candidates) != 1 || one.Sure {
		t.Errorf("%v, sure: %v, %v", ids(one.Candidates), one.Sure, err)
	}
}

func ids(ranked []Candidate) (all []string) {
	for _, c := range ranked {
		all = append(all, c.Tool.ID)
	}
	return all
}
