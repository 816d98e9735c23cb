package classify

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

func TestDecide(t *testing.T) {
	yes, no := true, false
	categories := []config.Category{
		{Name: "a", Model: "of a", UseReasoning: &yes, Rules: []config.Rule{{MaxWords: 1, Model: "short a"}}},
		{Name: "b"},
		{Name: "c"},
	}
	base := config.Classification{Model: "default", Threshold: 0.6, Fallback: "c"}
	with := func(change func(*config.Classification)) config.Classification { c := base; change(&c); return c }
	ruled := with(func(c *config.Classification) {
		c.UseReasoning = true
		c.Rules = []config.Rule{
			{Patterns: []string{"^x", "y$"}, UseReasoning: &no},
			{Categories: []string{"c", "a"}, MinWords: 3, Model: "long"},
			{ConfidenceBelow: 0.7, Model: "unsure", UseReasoning: &yes},
			{Categories: []string{"b"}, MinWords: 2, MaxWords: 2, Model: "two of b"},
			{Model: "last"},
		}
	})
	for _, tt := range []struct {
		name  string
		c     config.Classification
		text  string
		p     []float64
		class int
		q     []float64 // nil: as p
		model string
		think bool
	}{
		{"sure", base, "one two", []float64{0.75, 0.125, 0.125}, 0, nil, "of a", true},
		{"at the threshold", with(func(c *config.Classification) { c.Threshold = 0.5 }), "", []float64{0.25, 0.5, 0.25}, 1, nil, "default", false},
		{"unsure", base, "", []float64{0.5, 0.25, 0.25}, 2, []float64{0.25, 0.125, 0.625}, "default", false},
		{"the fallback is the best and sure", base, "", []float64{0.125, 0.125, 0.75}, 2, nil, "default", false},
		{"the fallback is the best and unsure", base, "", []float64{0.25, 0.25, 0.5}, 2, []float64{0.0625, 0.0625, 0.875}, "default", false},
		{"no fallback", with(func(c *config.Classification) { c.Fallback = "" }), "one two", []float64{0.4, 0.35, 0.25}, 0, nil, "of a", true},
		{"another's fallback", with(func(c *config.Classification) { c.Fallback = "z" }), "", []float64{0.3, 0.4, 0.3}, 1, nil, "default", false},
		{"threshold 0", with(func(c *config.Classification) { c.Threshold = 0 }), "", []float64{0.3, 0.4, 0.3}, 1, nil, "default", false},
		{"threshold 1", with(func(c *config.Classification) { c.Threshold = 1 }), "", []float64{0, 0.99, 0.01}, 2, []float64{0, 1 / 2.01, 1.01 / 2.01}, "default", false},
		{"threshold 1 and certain", with(func(c *config.Classification) { c.Threshold = 1 }), "", []float64{0, 1, 0}, 1, nil, "default", false},

		{"rule of the category", base, " one\n", []float64{0.75, 0.125, 0.125}, 0, nil, "short a", true},
		{"category's rule, then another's reasoning", ruled, "x", []float64{0.75, 0.125, 0.125}, 0, nil, "short a", false},
		{"two rules, one thing each", ruled, "x y z", []float64{0.75, 0.125, 0.125}, 0, nil, "long", false},
		{"the second pattern", ruled, "my", []float64{0, 0.75, 0.25}, 1, nil, "last", false},
		{"confidence after the fallback", ruled, "", []float64{0.5, 0.25, 0.25}, 2, []float64{0.25, 0.125, 0.625}, "unsure", true},
		{"two words of b", ruled, "one two", []float64{0, 0.75, 0.25}, 1, nil, "two of b", true},
		{"three words of b", ruled, "one two three", []float64{0, 0.75, 0.25}, 1, nil, "last", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := newPolicy(tt.c, categories).decide(tt.text, slices.Clone(tt.p))
			if tt.q == nil {
				tt.q = tt.p
			}
			close := slices.EqualFunc(got.Probabilities, tt.q, func(a, b float64) bool { return math.Abs(a-b) < 1e-4 })
			if !close || got.Entropy != entropy(got.Probabilities) {
				t.Errorf("got %v with entropy %v, want %v", got.Probabilities, got.Entropy, tt.q)
			}
			want := Outcome{Class: tt.class, Category: categories[tt.class].Name, Confidence: got.Probabilities[tt.class], Model: tt.model, UseReasoning: tt.think, Probabilities: got.Probabilities, Entropy: got.Entropy}
			expect.Deep(t, got, want)
		})
	}
}

// Properties of every answer, for all distributions and thresholds.
func TestDecideProperties(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 20000 {
		n := 1 + random.IntN(6)
		categories := make([]config.Category, n)
		p := make([]float64, n)
		sum := 0.0
		for i := range p {
			categories[i].Name = strings.Repeat("c", i+1)
			p[i] = math.Pow(random.Float64(), 1+9*random.Float64())
			sum += p[i]
		}
		for i := range p {
			p[i] /= sum
		}
		fallback := random.IntN(n)
		c := config.Classification{Threshold: float64(random.IntN(11)) / 10, Fallback: categories[fallback].Name}
		a := newPolicy(c, categories).decide("", slices.Clone(p))
		sum = 0
		for _, q := range a.Probabilities {
			if sum += q; q < 0 || math.IsNaN(q) {
				t.Fatalf("%v of %v: negative", a, p)
			}
		}
		best := slices.Max(a.Probabilities)
		unsure := slices.Max(p) < c.Threshold-1e-9
		switch {
		case math.Abs(sum-1) > 1e-9:
			t.Fatalf("%v of %v: the sum is %v", a, p, sum)
		case a.Confidence != best || a.Probabilities[a.Class] != best || a.Category != categories[a.Class].Name:
			t.Fatalf("%+v of %v: not the largest", a, p)
		case unsure && a.Class != fallback:
			t.Fatalf("%+v of %v, threshold %v: not the fallback", a, p, c.Threshold)
		case !unsure && slices.Max(p) >= c.Threshold+1e-9 && !slices.EqualFunc(a.Probabilities, p, func(a, b float64) bool { return math.Abs(a-b) < 1e-12 }):
			t.Fatalf("%v of %v, threshold %v: changed", a, p, c.Threshold)
		case a.Entropy < 0 || a.Entropy > math.Log2(float64(n))+1e-9:
			t.Fatalf("%v: entropy is out of range", a)
		}
	}
}

func TestOutcomeJSON(t *testing.T) {
	for want, a := range map[string]Outcome{
		`{"class":1,"category":"b","confidence":0.75,"model":"m","use_reasoning":true,"probabilities":[0.25,0.75],"entropy":0.5}`: {Class: 1, Category: "b", Confidence: 0.75, Model: "m", UseReasoning: true, Probabilities: []float64{0.25, 0.75}, Entropy: 0.5},
		`{"class":0,"category":"a","confidence":1,"model":"","use_reasoning":false,"entropy":0}`:                                  {Category: "a", Confidence: 1},
	} {
		if got, err := json.Marshal(a); err != nil || string(got) != want {
			t.Errorf("got %s, %v, want %s", got, err, want)
		}
	}
}

func TestCheck(t *testing.T) {
	for text, says := range map[string]string{
		"hello":      "",
		"12345678":   "",
		"":           "is empty",
		" \n\t":      "is empty",
		"123456789":  "has 9 bytes and at most 8",
		"ab\xff":     "not valid UTF-8",
		"ééééé":      "has 10 bytes",
		"\u00a0\x00": "",
	} {
		err := check(text, 8)
		if says == "" && err != nil || says != "" && (err == nil || !strings.Contains(err.Error(), says)) {
			t.Errorf("%q: got %v, want %q", text, err, says)
		}
	}
}
