package classify

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/test/expect"
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

// few is the example file with five examples and keywords of each category.
var few = sync.OnceValue(func() config.Classification {
	c := example()
	c.Categories = slices.Clone(c.Categories)
	for i := range c.Categories {
		c.Categories[i].Examples = c.Categories[i].Examples[:5]
		c.Categories[i].Keywords = c.Categories[i].Keywords[:5]
	}
	return c
})

var fewLexical = sync.OnceValue(func() *lexical { return trained(few().Categories) })

var exampleLexical = sync.OnceValue(func() *lexical {
	return fit(len(example().Categories), slices.Clone(exampleDocuments()))
})

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
			expect.Equal(t, slices.Index(p, slices.Max(p)), tt.best, "the largest of %v is at", p)
			expect.List(t, p, trained(tt.categories).probabilities(tt.text), "then")
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
		expect.Equal(t, strings.Join(split(text), "|"), want, "%q", text)
	}
}

func FuzzClassify(f *testing.F) {
	for _, text := range []string{"", "What is 2 + 2?", "日本\xff\x00", strings.Repeat("a ", 5000), "''''", "1066,.", "# ?"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p := fewLexical().probabilities(text)
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
		c := few()
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
