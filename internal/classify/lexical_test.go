package classify

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/mcp-metarouter/metarouter/config"
)

// example is the classification of the example file.
var example = sync.OnceValue(func() config.Classification {
	c, err := config.Load("../../categories.example.json")
	if err != nil {
		panic(err)
	}
	return *c.Router.Classification
})

// trained returns a lexical of the categories.
func trained(categories []config.Category) *lexical {
	l, err := newLexical(context.Background(), categories, "")
	if err != nil {
		panic(err)
	}
	return l
}

// exampleDocuments returns the texts of the example file with their meanings, which take seconds.
var exampleDocuments = sync.OnceValue(func() []document {
	all := documentsOf(example().Categories)
	if err := encode(context.Background(), all, ""); err != nil {
		panic(err)
	}
	return all
})

var exampleLexical = sync.OnceValue(func() *lexical {
	return fit(len(example().Categories), slices.Clone(exampleDocuments()))
})

func TestExampleFile(t *testing.T) {
	c, err := config.Load("../../categories.example.json")
	if err != nil || len(c.Problems) > 0 {
		t.Fatal(err, c.Problems)
	}
	k := c.Router.Classification
	var names []string
	seen := make(map[string]string)
	for _, category := range k.Categories {
		names = append(names, category.Name)
		if category.Description == "" || category.SystemPrompt == "" || len(category.Keywords) < 50 || len(category.Examples) < 60 {
			t.Errorf("%s: %d keywords and %d examples, or no description or prompt", category.Name, len(category.Keywords), len(category.Examples))
		}
		for _, text := range category.Examples {
			if other, again := seen[text]; again {
				t.Errorf("%q is an example of %s and %s", text, other, category.Name)
			}
			seen[text] = category.Name
		}
	}
	if got := strings.Join(names, " "); got != "math science technology history general" || k.Fallback != "general" || k.Threshold != 0.6 {
		t.Errorf("got %q, fallback %q, threshold %v", got, k.Fallback, k.Threshold)
	}
	policy := newPolicy(*k, k.Categories)
	for _, tt := range []struct{ text, category, model, think string }{
		{"What is 3 + 4?", "math", "fast", "false"},
		{"Prove that there is no largest prime number.", "math", "strong", "true"},
		{"Which planet has rings?", "science", "default", "false"},
		{"Explain how enzymes lower the activation energy of a reaction.", "science", "default", "true"},
		{"Fix the bug in my Python function.", "technology", "default", "false"},
		{"Who was the emperor of France in 1805?", "history", "default", "false"},
		{"Hello!", "general", "fast", "false"},
	} {
		a := policy.decide(tt.text, exampleLexical().probabilities(tt.text))
		if a.Category != tt.category || a.Model != tt.model || fmt.Sprint(a.UseReasoning) != tt.think {
			t.Errorf("%q: got %+v, want %s %s %s", tt.text, a, tt.category, tt.model, tt.think)
		}
	}
}

// The folder keeps the meanings of texts for later trainings. A folder that can't be written costs nothing else.
func TestKeptMeanings(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "new")
	categories := []config.Category{{Name: "sea", Keywords: []string{"ship"}}, {Name: "land", Examples: []string{"Where is the car?"}}}
	first, err := newLexical(t.Context(), categories, folder)
	if err != nil {
		t.Fatal(err)
	}
	files, _ := filepath.Glob(filepath.Join(folder, "*"))
	if len(files) != 1 {
		t.Fatal(files)
	}
	if data, err := os.ReadFile(files[0]); err != nil || len(data) == 0 || bytes.Contains(data, []byte("Where is")) {
		t.Error("the file has the text of an example, or nothing", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel() // nothing can be encoded
	if again, err := newLexical(ended, categories, folder); err != nil || !slices.Equal(again.probabilities("A boat."), first.probabilities("A boat.")) {
		t.Error(again, err)
	}
	if l, err := newLexical(ended, categories, ""); l != nil || !errors.Is(err, context.Canceled) {
		t.Error(l, err)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if l, err := newLexical(t.Context(), categories, file); l == nil || err == nil {
		t.Error(l, err)
	}
}

// A labelled text and its result.
type judged struct {
	text  string
	class int
	p     []float64
}

// crossValidate judges each example of the example file by a lexical that was made without it.
func crossValidate(folds int) (calibrated, plain []judged) {
	for fold := range folds {
		var training, test []document
		for i, d := range exampleDocuments() {
			if d.weight == 1 && i%folds == fold {
				test = append(test, d)
			} else {
				training = append(training, d)
			}
		}
		l := fit(len(example().Categories), training)
		uncalibrated := *l
		uncalibrated.sharp = 1
		for _, d := range test {
			calibrated = append(calibrated, judged{d.text, d.class, l.classify(d)})
			plain = append(plain, judged{d.text, d.class, uncalibrated.classify(d)})
		}
	}
	return calibrated, plain
}

// confusion counts the results, by right class and decided class.
func confusion(c config.Classification, texts []judged) [][]int {
	policy := newPolicy(c, c.Categories)
	counts := make([][]int, len(c.Categories))
	for i := range counts {
		counts[i] = make([]int, len(c.Categories))
	}
	for _, j := range texts {
		counts[j.class][policy.decide(j.text, j.p).Class]++
	}
	return counts
}

func logLoss(texts []judged) float64 {
	loss := 0.0
	for _, j := range texts {
		loss -= math.Log(max(j.p[j.class], 1e-12))
	}
	return loss / float64(len(texts))
}

// The bounds are somewhat below the results. One person wrote the examples and
// the keywords, so other texts do worse: see TestQuestions.
func TestCrossValidation(t *testing.T) {
	if testing.Short() {
		t.Skip("it trains the classifier several times")
	}
	c := example()
	calibrated, plain := crossValidate(3)
	before, after := logLoss(plain), logLoss(calibrated)
	t.Logf("log-loss %.3f before calibration, %.3f after", before, after)
	if after > 0.24 || after > before {
		t.Errorf("log-loss %.3f before calibration, %.3f after", before, after)
	}
	report(t, c, confusion(c, calibrated))
}

// report logs the counts, and fails where less than 85 % of a category are right.
func report(t *testing.T, c config.Classification, confusion [][]int) {
	for class, counts := range confusion {
		all := 0
		for _, n := range counts {
			all += n
		}
		accuracy := float64(counts[class]) / float64(all)
		t.Logf("%-10s %4d %.3f", c.Categories[class].Name, counts, accuracy)
		if accuracy < 0.85 {
			t.Errorf("%s: %.3f are right", c.Categories[class].Name, accuracy)
		}
	}
}

// None of these texts is an example. One person wrote them and the
// examples, and after each third of them the examples became more; only the last
// hundred were never looked at before.
func TestQuestions(t *testing.T) {
	c := example()
	data, err := os.ReadFile("testdata/questions.tsv")
	if err != nil {
		t.Fatal(err)
	}
	var texts []judged
	for line := range strings.Lines(string(data)) {
		name, text, _ := strings.Cut(strings.TrimSpace(line), "\t")
		class := slices.IndexFunc(c.Categories, func(k config.Category) bool { return k.Name == name })
		if class < 0 || slices.Contains(c.Categories[class].Examples, text) {
			t.Fatalf("%q is of no category, or an example", line)
		}
		texts = append(texts, judged{text, class, exampleLexical().probabilities(text)})
	}
	t.Logf("log-loss %.3f", logLoss(texts))
	report(t, c, confusion(c, texts))
}

func TestProbabilities(t *testing.T) {
	tags := func(n int) []config.Category {
		var all []config.Category
		for i := range n {
			all = append(all, config.Category{Name: fmt.Sprint("tag", i), Keywords: []string{fmt.Sprint("word", string(rune('a'+i%26)), i/26)}})
		}
		return all
	}
	named := []config.Category{{Name: "cooking"}, {Name: "astronomy"}, {Name: "law"}}
	words := []config.Category{{Name: "payments", Keywords: []string{"invoice", "billing", "refund"}}, {Name: "mail", Keywords: []string{"inbox", "send an email", "attachment"}}}
	for _, tt := range []struct {
		name       string
		categories []config.Category
		text       string
		best       int
	}{
		{"one", named[:1], "anything", 0},
		{"names only: the word", named, "astronomy for beginners", 1},
		{"names only: the meaning", named, "the judge and the lawyers in court", 2},
		{"keywords only", words, "refund the last invoice", 0},
		{"keywords only: a phrase", words, "send Anna an email", 1},
		{"many", tags(40), "wordc", 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := trained(tt.categories).probabilities(tt.text)
			if len(p) != len(tt.categories) {
				t.Fatalf("got %v", p)
			}
			if slices.Index(p, slices.Max(p)) != tt.best {
				t.Errorf("got %v, want the largest at %d", p, tt.best)
			}
			if again := trained(tt.categories).probabilities(tt.text); !slices.Equal(p, again) {
				t.Errorf("got %v, then %v", p, again)
			}
		})
	}
}

func TestSplit(t *testing.T) {
	for text, want := range map[string]string{
		"What's 3.5 + 1,000?":            "what's|#|+|#",
		"In 1066 or 2001, not 3000.":     "in|#|or|#|not|#",
		"f(x)=2x^2":                      "f|(|x|)|=|#|x|^|#",
		"The dogs’ tails 'quoted' naïve": "the|dogs|tails|quoted|naïve",
		"日本 and かな":                      "日|本|and|か|な",
		strings.Repeat("x", 65) + " ok":  "ok",
		strings.Repeat("ab/", 30) + "ok": strings.Repeat("ab|", 30) + "ok",
		" .,!? ":                         "",
		"it's 5pm":                       "it's|#|pm",
	} {
		if got := strings.Join(split(text), "|"); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

func FuzzClassify(f *testing.F) {
	for _, text := range []string{"", "What is 2 + 2?", "日本\xff\x00", strings.Repeat("a ", 5000), "''''", "1066,.", "# ?"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p := exampleLexical().probabilities(text)
		sum := 0.0
		for _, x := range p {
			if !(x >= 0) {
				t.Fatalf("got %v", p)
			}
			sum += x
		}
		if math.Abs(sum-1) > 1e-9 {
			t.Fatalf("the sum of %v is %v", p, sum)
		}
		c := example()
		newPolicy(c, c.Categories).decide(text, p)
		_ = check(text, 100)
	})
}

var long = strings.Join(func() (all []string) {
	for _, c := range example().Categories {
		all = append(all, c.Examples...)
	}
	return all
}(), " ")[:8192]

func BenchmarkProbabilities(b *testing.B) {
	for name, text := range map[string]string{"short": "Which planet has the most moons?", "8KiB": long, "8KiB of unknown words": unknown(8192)} {
		b.Run(name, func(b *testing.B) {
			l := exampleLexical()
			b.ReportAllocs()
			for b.Loop() {
				l.probabilities(text)
			}
		})
	}
}

// unknown is a text of that many bytes in which no word is known.
func unknown(size int) string {
	var text strings.Builder
	for i := 0; text.Len() < size; i++ {
		fmt.Fprintf(&text, "zq%s%sing ", strings.Repeat("x", i%7), string([]rune{'a' + rune(i%26), 'a' + rune(i/26%26)}))
	}
	return text.String()[:size]
}

func BenchmarkNewLexical(b *testing.B) {
	var small []config.Category
	for _, c := range example().Categories {
		c.Examples, c.Keywords = c.Examples[:60], c.Keywords[:60]
		small = append(small, c)
	}
	for name, categories := range map[string][]config.Category{"5x60": small, "example file": example().Categories} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				trained(categories)
			}
		})
	}
}
