// Package text turns a task, in the words of a person or a model, into the form that ranking
// compares: words, the English for foreign words, and the steps that a task has.
package text

import (
	_ "embed"
	"slices"
	"strings"
	"sync"

	"github.com/mcp-metarouter/metarouter/internal/index"
	"github.com/mcp-metarouter/metarouter/internal/lazy"
)

// A Task is a task as words.
type Task struct {
	Words []string // as [index.Words] returns them, each once, in the order of their first appearance; the English ones first
	Plain string   // in English, as far as it is translated; "" if there is nothing to search for
	Steps []Step   // at least one, if there are words
}

// A Step is a part of a task that may need a tool of its own.
type Step struct {
	Words []int  // indexes of the task's words, each once
	Plain string // from the end of the step before, with all that separates the two
}

// Bounds of a task.
const (
	MaxTask  = 64 << 10 // bytes that are read of a task
	maxSteps = 32       // the longest are kept

	maxCorrected = 500 // words that are compared with those of the tools
)

// content returns the words of a text in English without numbers and chatter, such as "please", or all if there are no
// others.
func content(text string, stems index.Stemmer) []string {
	all := stems.Words(text)
	words := slices.DeleteFunc(slices.Clone(all), func(w string) bool { return chatter()[w] || strings.Trim(w, "0123456789") == "" })
	if len(words) == 0 {
		return all
	}
	return words
}

// Parse returns a task as words.
func Parse(text string) Task {
	stems := make(index.Stemmer)
	original := text[:min(len(text), MaxTask)]
	text = english(original)
	t := Task{Plain: strings.Join(strings.Fields(text), " ")}
	at := make(map[string]int)
	add := func(words []string) {
		for _, w := range words {
			if _, ok := at[w]; !ok {
				at[w] = len(t.Words)
				t.Words = append(t.Words, w)
			}
		}
	}
	if add(content(text, stems)); text != original {
		add(content(original, stems)) // tools may be described in the task's language
	}
	begin, after := 0, 0 // of the step, and of its last part
	for _, end := range append(stepEnds().FindAllStringIndex(text, -1), []int{len(text), len(text)}) {
		var s Step
		for _, w := range content(text[after:end[0]], stems) {
			if i, ok := at[w]; ok && !slices.Contains(s.Words, i) { // chatter that stands alone is no step
				s.Words = append(s.Words, i)
			}
		}
		if after = end[1]; len(s.Words) > 0 {
			s.Plain, begin = text[begin:after], after
			t.Steps = append(t.Steps, s)
		}
	}
	if n := len(t.Steps); n > 0 {
		t.Steps[n-1].Plain += text[begin:]
	}
	if len(t.Steps) <= 1 && len(t.Words) > 0 {
		t.Steps = []Step{{Plain: t.Plain}}
		for i := range t.Words {
			t.Steps[0].Words = append(t.Steps[0].Words, i)
		}
	}
	if len(t.Steps) > maxSteps {
		slices.SortStableFunc(t.Steps, func(a, b Step) int { return len(b.Words) - len(a.Words) })
		t.Steps = t.Steps[:maxSteps]
	}
	return t
}

// Correct replaces misspelt words, of a long task the first ones. correct returns the word that was meant.
func (t *Task) Correct(correct func(word string) string) {
	for i, w := range t.Words[:min(len(t.Words), maxCorrected)] {
		t.Words[i] = correct(w)
	}
}

// stepEnds matches the text between the steps of a task.
var stepEnds = lazy.Regexp(`[.!?;:]\s|[\n•;。！？；，]|,\s|\s[—–-]\s|—|\b(?:then|and|also)\b`)

//go:embed chatter.txt
var chatterList string

//go:embed actions.txt
var actionList string

// The words of the lists, in the form that index.Words gives to words.
var (
	chatter   = wordSet(chatterList) // how people ask, whatever they ask for
	beginners = wordSet(actionList)  // with which a task may begin
)

func wordSet(list string) func() map[string]bool {
	return sync.OnceValue(func() map[string]bool {
		set := make(map[string]bool)
		for _, w := range index.Words(list) {
			set[w] = true
		}
		return set
	})
}
