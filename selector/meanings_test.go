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
	"github.com/mcp-metarouter/metarouter/internal/vectors"
	"github.com/mcp-metarouter/metarouter/selector/internal/rank"
	"github.com/mcp-metarouter/metarouter/selector/internal/text"
)

// A knowing is a model that knows that words mean the same.
type knowing struct {
	same map[string]string // a word → the one that stands for it
	set  *embeddings.Set
	late bool
}

func (k *knowing) Task(_ context.Context, task string) (vectors.Vector, *embeddings.Set) {
	if k.late {
		return nil, nil
	}
	v := k.vector(task)
	length := float32(math.Sqrt(float64(v.Dot(v))))
	for i := range v {
		v[i] /= length
	}
	return v, k.set
}

// vector has the hashed words. All vectors are near each other, as those of many models are.
func (k *knowing) vector(text string) vectors.Vector {
	v := make(vectors.Vector, 64)
	v[0] = 1
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
	c, err := embeddings.New(server.URL, "m", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	var tools []embeddings.Tool
	for _, line := range lines {
		tool := parseTool(line)
		tools = append(tools, embeddings.Tool{ID: tool.ID, Name: tool.Name, Description: tool.Description})
	}
	if k.set, err = embeddings.Open(c, "").Build(t.Context(), tools); err != nil {
		t.Fatal(err)
	}
}

// Vectors of another model find what the built-in ones do not know, on the same scale, and are
// not missed when they are late.
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
		t.Fatalf("the built-in vectors find it: %v", ids(before.Candidates))
	}
	s.meanings = k
	after := find()
	if len(after.Candidates) == 0 || after.Candidates[0].Tool.ID != want {
		t.Fatalf("found %v", ids(after.Candidates))
	}
	f := after.Candidates[0].Features
	if f[rank.MeaningFeature] != f[rank.StepMeaningFeature] || f[rank.MeaningFeature] <= 0 || f[rank.MeaningFeature] > 1 {
		t.Errorf("features %v", f)
	}
	k.late = true
	if late := find(); slices.Contains(ids(late.Candidates), want) {
		t.Errorf("found %v without vectors", ids(late.Candidates))
	}
}

// On descriptions as tasks, the scaled cosines are those of the built-in vectors in the mean.
func TestScale(t *testing.T) {
	lines := append(slices.Clone(browser), git...)
	s := picker(t, lines...)
	k := new(knowing)
	know(t, k, lines...)
	s.meanings = k
	c, err := s.index.Tools(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	scale, ok := scaleOf(c, k.set)
	if !ok || scale.factor <= 1 { // the model's cosines are all near each other
		t.Fatalf("%+v, %v", scale, ok)
	}
	var scaled, builtin float64
	n := 0.0
	for id, v := range k.set.Descriptions() {
		for _, d := range c.Documents() {
			if d.Tool.ID == id {
				scaled += scale.factor*float64(v.Dot(k.set.Tool(id))) + scale.offset
				builtin += float64(c.Meaning(text.Parse(d.Tool.Description).Text).Dot(d.Vector))
				n++
			}
		}
	}
	if n < 5 || math.Abs(scaled-builtin)/n > 0.01 {
		t.Errorf("the mean is %.3f, by the built-in vectors %.3f, of %v tools", scaled/n, builtin/n, n)
	}
	if _, ok := scaleOf(c, new(embeddings.Set)); ok {
		t.Error("no vectors have a scale")
	}
	blind := &knowing{same: make(map[string]string)} // all words are one
	for _, line := range lines {
		tool := parseTool(line)
		for word := range strings.FieldsSeq(strings.ToLower(tool.Name + " " + tool.Description)) {
			blind.same[strings.Trim(word, ".,:")] = "x"
		}
	}
	know(t, blind, lines...)
	if _, ok := scaleOf(c, blind.set); ok {
		t.Error("a model that can't tell tools apart has a scale")
	}
}
