package selector

import (
	"context"
	"encoding/json"
	"hash/fnv"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/internal/embeddings"
	"github.com/mcp-metarouter/metarouter/internal/encoder"
	"github.com/mcp-metarouter/metarouter/internal/endpoint"
	"github.com/mcp-metarouter/metarouter/internal/index"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector/internal/rank"
	"github.com/mcp-metarouter/metarouter/selector/internal/text"
)

// A knowing is a model that knows that words mean the same.
type knowing struct {
	same map[string]string // a word → the one that stands for it
	set  *embeddings.Set
	late bool

	common float32 // how much all texts have in common
}

func (k *knowing) Task(_ context.Context, texts []string) (all []encoder.Vector, set *embeddings.Set) {
	if k.late {
		return nil, nil
	}
	for _, text := range texts {
		v := k.vector(text)
		length := float32(math.Sqrt(float64(v.Dot(v))))
		for i := range v {
			v[i] /= length
		}
		all = append(all, v)
	}
	return all, k.set
}

// vector has the hashed words. All vectors are near each other, as those of many models are.
func (k *knowing) vector(text string) encoder.Vector {
	v := make(encoder.Vector, 64)
	v[0] = 1 + k.common
	for word := range strings.FieldsSeq(strings.ToLower(text)) {
		word = strings.Trim(word, ".,:")
		if other, ok := k.same[word]; ok {
			word = other
		}
		h := fnv.New32a()
		h.Write([]byte(word))
		v[1+h.Sum32()%63] = 1
	}
	return v
}

// know has the model make the vectors of the tools on the lines.
func know(t *testing.T, k *knowing, lines ...string) {
	t.Helper()
	c := k.serve(t)
	var tools []*registry.NormalizedTool
	for _, line := range lines {
		tool := parseTool(line)
		tools = append(tools, &registry.NormalizedTool{ID: tool.ID, Name: tool.Name, Description: tool.Description})
	}
	var err error
	if k.set, err = embeddings.Open(c, "").Build(t.Context(), embeddings.Tools(tools)); err != nil {
		t.Fatal(err)
	}
}

// serve serves the model as an API, and returns its client.
func (k *knowing) serve(t *testing.T) *endpoint.Client {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var q struct{ Input []string }
		json.NewDecoder(r.Body).Decode(&q)
		var data []map[string]any
		for i, text := range q.Input {
			data = append(data, map[string]any{"index": i, "embedding": k.vector(text)})
		}
		json.NewEncoder(w).Encode(map[string]any{"data": data})
	}))
	t.Cleanup(server.Close)
	c, err := endpoint.New(server.URL, "m", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// encode gives the selector the vectors of its tools by the model in the program.
func encode(t *testing.T, s *Selector) *Selector {
	t.Helper()
	c, err := s.index.Tools(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	set, err := embeddings.Open(embeddings.Builtin(), "").Build(t.Context(), embeddings.Tools(c.Snapshot.Tools()))
	if err != nil {
		t.Fatal(err)
	}
	s.meanings = encoded{set}
	return s
}

// encoded is the model in the program, and the vectors of tools.
type encoded struct{ set *embeddings.Set }

func (e encoded) Task(ctx context.Context, texts []string) ([]encoder.Vector, *embeddings.Set) {
	all, err := embeddings.Builtin().Task(ctx, texts)
	if err != nil {
		return nil, nil
	}
	return all, e.set
}

// Vectors find tools that have no word of the task, and are not missed when they are late.
func TestMeanings(t *testing.T) {
	lines := append(slices.Clone(browser), git...)
	s := picker(t, lines...)
	k := &knowing{same: map[string]string{"zorbl": "screenshot", "quux": "take"}}
	know(t, k, lines...)
	find := func() Ranking {
		found, err := s.Find(t.Context(), Query{Task: "quux zorbl", Limit: 20})
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	const want = "playwright:browser_take_screenshot"
	if before := find(); slices.Contains(ids(before.Candidates), want) {
		t.Fatalf("words find it: %v", ids(before.Candidates))
	}
	s.meanings = k
	after := find()
	if len(after.Candidates) == 0 || after.Candidates[0].Tool.ID != want {
		t.Fatalf("found %v", ids(after.Candidates))
	}
	f := after.Candidates[0].Features
	if f[rank.MeaningFeature] != f[rank.StepMeaningFeature] || f[rank.MeaningFeature] <= 0.1 || f[rank.MeaningFeature] > 1 {
		t.Errorf("features %v", f)
	}
	k.late = true
	if late := find(); slices.Contains(ids(late.Candidates), want) {
		t.Errorf("found %v without vectors", ids(late.Candidates))
	}
}

// The nearest tool is found whatever the task, also among those of one server, and a tool that has
// no vector yet counts as near as the mean.
func TestNearest(t *testing.T) {
	lines := append(slices.Clone(browser), git...)
	s := picker(t, lines...)
	k := &knowing{same: map[string]string{"zorbl": "screenshot", "quux": "take"}}
	know(t, k, lines[1:]...)
	s.meanings = k
	found, err := s.Find(t.Context(), Query{Task: "quux zorbl", Servers: []string{"git"}})
	if err != nil || len(found.Candidates) != 1 || found.Sure {
		t.Errorf("of the other server: %v, sure: %v, %v", ids(found.Candidates), found.Sure, err)
	}
	c, err := s.index.Tools(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	near := s.nearness(t.Context(), c.Within(nil), text.Parse("quux zorbl"))
	for _, d := range c.Documents() {
		if x := near.of(d); d.Tool.ID == parseTool(lines[0]).ID && x != (rank.Nearness{Whole: meanNearness, Step: meanNearness}) {
			t.Errorf("a tool without a vector is %v", x)
		}
	}
}

// The cosine of the model in the program is the feature as it is, however many tools there are.
func TestCosineOfBuiltin(t *testing.T) {
	cosine := func(lines ...string) float64 {
		t.Helper()
		found, err := encode(t, picker(t, lines...)).Find(t.Context(), Query{Task: "take a screenshot of the page"})
		if err != nil || len(found.Candidates) == 0 || found.Candidates[0].Tool.Name != "browser_take_screenshot" {
			t.Fatalf("found %v, %v", ids(found.Candidates), err)
		}
		return found.Candidates[0].Features[rank.MeaningFeature]
	}
	few, many := cosine(browser...), cosine(append(slices.Clone(browser), git...)...)
	if few != many || few < 0.4 {
		t.Errorf("%v among a few tools, %v among many", few, many)
	}
	found, err := picker(t, browser...).Find(t.Context(), Query{Task: "take a screenshot of the page"})
	if err != nil || found.Candidates[0].Features[rank.MeaningFeature] != 0 {
		t.Errorf("without vectors: %v, %v", found.Candidates[0].Features, err)
	}
}

// wholes returns how near the tools are to the whole task; nil for nil.
func wholes(near *nearness, tools []*index.Document) map[*index.Document]float64 {
	if near == nil {
		return nil
	}
	all := make(map[*index.Document]float64)
	for _, d := range tools {
		all[d] = near.of(d).Whole
	}
	return all
}

// The cosines of all models are brought to one scale.
func TestScale(t *testing.T) {
	lines := append(slices.Clone(browser), git...)
	s := picker(t, lines...)
	c, err := s.index.Tools(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	near := func(k *knowing) map[*index.Document]float64 {
		know(t, k, lines...)
		s.meanings = k
		return wholes(s.nearness(t.Context(), c.Within(nil), text.Parse("take a screenshot of the page")), c.Documents())
	}
	alike := &knowing{common: 3}
	wide, narrow := near(new(knowing)), near(alike)
	if len(wide) != len(lines) || len(narrow) != len(lines) {
		t.Fatalf("%d and %d of %d tools", len(wide), len(narrow), len(lines))
	}
	var best *index.Document
	for d, x := range wide {
		if best == nil || x > wide[best] {
			best = d
		}
		if x < 0 || x > 1 || math.Abs(x-narrow[d]) > 0.2 {
			t.Errorf("%s: %.2f and %.2f", d.Tool.ID, x, narrow[d])
		}
	}
	if best.Tool.Name != "browser_take_screenshot" || wide[best] < 0.2 || narrow[best] < 0.15 {
		t.Errorf("%s is best, %.2f and %.2f", best.Tool.ID, wide[best], narrow[best])
	}
	meaning := func(m Meanings) float64 {
		s.meanings = m
		found, err := s.Find(t.Context(), Query{Task: "take a screenshot of the page"})
		if err != nil || found.Candidates[0].Tool.ID != best.Tool.ID {
			t.Fatalf("%v, %v", ids(found.Candidates), err)
		}
		return found.Candidates[0].Features[rank.MeaningFeature]
	}
	if without, with := meaning(nil), meaning(alike); without != 0 || math.Abs(with-narrow[best]) > 1e-6 {
		t.Errorf("the feature is %.3f without a model, and %.3f with %.3f", without, with, narrow[best])
	}
	blind := &knowing{same: make(map[string]string)} // all words are one
	for _, line := range lines {
		tool := parseTool(line)
		for word := range strings.FieldsSeq(strings.ToLower(strings.NewReplacer("_", " ", "-", " ").Replace(tool.Server+" "+tool.Name) + " " + tool.Description)) {
			blind.same[strings.Trim(word, ".,:")] = "x"
		}
	}
	if got := near(blind); got != nil {
		t.Errorf("a model that can't tell tools apart says %v", got)
	}
	one := picker(t, browser[0])
	one.meanings = new(knowing)
	know(t, one.meanings.(*knowing), browser[0])
	if c, err = one.index.Tools(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := one.nearness(t.Context(), c.Within(nil), text.Parse("close")); got != nil {
		t.Errorf("one tool shows a scale: %v", got)
	}
}

// A holding is a model that has no vector for "wait" until it is released.
type holding struct{ entered, release chan bool }

func (h holding) Task(_ context.Context, texts []string) ([]encoder.Vector, *embeddings.Set) {
	if texts[0] == "wait" {
		h.entered <- true
		<-h.release
	}
	return nil, nil
}

// No search waits while the model is asked for another one.
func TestSearchesAskTogether(t *testing.T) {
	s := picker(t, browser...)
	h := holding{make(chan bool), make(chan bool)}
	s.meanings = h
	done := make(chan error)
	go func() {
		_, err := s.Find(t.Context(), Query{Task: "wait"})
		done <- err
	}()
	<-h.entered
	if _, err := s.Find(t.Context(), Query{Task: "take a screenshot"}); err != nil {
		t.Error(err)
	}
	h.release <- true
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// Tools are found by words alone until nearly all have a vector: those that lack one would come last.
func TestNewToolsWithoutVectors(t *testing.T) {
	s, r := filled(t, git...)
	encode(t, s)
	var tools []registry.NormalizedTool
	for _, line := range browser {
		tools = append(tools, parseTool(line))
	}
	if _, err := r.Replace(tools[0].Server, registry.Offer{Tools: tools}); err != nil {
		t.Fatal(err)
	}
	found, err := s.Find(t.Context(), Query{Task: "take a screenshot of the page"})
	if err != nil || len(found.Candidates) == 0 || found.Candidates[0].Tool.Name != "browser_take_screenshot" || found.Candidates[0].Features[rank.MeaningFeature] != 0 {
		t.Errorf("found %v, %v", ids(found.Candidates), err)
	}
}

// Whether an answer is sure does not depend on how many tools are asked for.
func TestSureOfOne(t *testing.T) {
	s := encode(t, picker(t, append([]string{"a:read_file Reads a file", "b:read_the_file Reads a file"}, browser...)...))
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
