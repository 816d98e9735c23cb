package classify

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/layer"
)

// The bounds are somewhat below the results. One person wrote the examples and
// the keywords, so other texts do worse: see TestQuestions.
func TestCrossValidation(t *testing.T) {
	layer.Full(t)
	c := example()
	calibrated, plain := crossValidate(3)
	before, after := logLoss(plain), logLoss(calibrated)
	t.Logf("log-loss %.3f before calibration, %.3f after", before, after)
	if after > 0.24 || after > before {
		t.Errorf("log-loss %.3f before calibration, %.3f after", before, after)
	}
	report(t, c, confusion(c, calibrated))
}

func TestExampleFile(t *testing.T) {
	layer.Full(t)
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
	layer.Integration(t)
	folder := filepath.Join(t.TempDir(), "new")
	categories := []config.Category{{Name: "sea", Keywords: []string{"ship"}}, {Name: "land", Examples: []string{"Where is the car?"}}}
	first, err := newLexical(t.Context(), categories, folder)
	expect.OK(t, err)
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
	expect.OK(t, os.WriteFile(file, nil, 0o600))
	if l, err := newLexical(t.Context(), categories, file); l == nil || err == nil {
		t.Error(l, err)
	}
}

// None of these texts is an example. One person wrote them and the
// examples, and after each third of them the examples became more; only the last
// hundred were never looked at before.
func TestQuestions(t *testing.T) {
	layer.Full(t)
	c := example()
	data, err := os.ReadFile("testdata/questions.tsv")
	expect.OK(t, err)
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
