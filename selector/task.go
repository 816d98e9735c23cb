package selector

import (
	_ "embed"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/mcp-metarouter/metarouter/registry"
)

// A task is what is to be done, as words.
type task struct {
	words []word   // each once, in order of their first appearance
	text  []string // all of them, in order
	steps []step   // at least one, if there are words
}

// A word is a word of a task.
type word struct {
	text     string   // as registry.Words returns it
	synonyms []string // other words for the same, sorted
	foreign  bool     // the task is in another language, and this word as well
}

// A step is a part of a task that may need a tool of its own.
type step struct {
	words []int    // of the task, each once
	text  []string // all of them, in order
}

const (
	maxTask  = 64 << 10 // bytes that are read of a task
	maxSteps = 32       // the longest are looked at
)

// Words returns the words by which tools for a task are found: those of
// [registry.Words] without chatter such as "please", unless there is nothing else.
// Foreign words come after the English ones that they stand for.
func Words(task string) []string {
	words, _ := content(task)
	return words
}

// content is Words, and which of them are foreign: those from that one on.
func content(task string) (words []string, foreign int) {
	all := registry.Words(task[:min(len(task), maxTask)])
	english := foreignWords(task)
	translated := len(english) > 0
	words = slices.DeleteFunc(slices.Clone(all), func(w string) bool {
		return wordLists().chatter[w] || translated && (foreignLexicon().stop[w] || slices.Contains(english, w))
	})
	switch {
	case translated:
		return slices.Concat(english, words), len(english)
	case len(words) == 0:
		words = all
	}
	return words, len(words)
}

func parse(text string) task {
	text = text[:min(len(text), maxTask)]
	var t task
	var foreign int
	t.text, foreign = content(text)
	index := make(map[string]int, len(t.text))
	for k, w := range t.text {
		if _, ok := index[w]; !ok {
			index[w] = len(t.words)
			t.words = append(t.words, word{text: w, synonyms: wordLists().synonyms[w], foreign: k >= foreign})
		}
	}
	if len(t.words) == 0 {
		return t
	}
	for _, part := range stepEnds.Split(text, -1) {
		if s := t.step(Words(part), index); len(s.words) > 0 {
			t.steps = append(t.steps, s)
		}
	}
	if len(t.steps) == 0 {
		t.steps = []step{t.step(t.text, index)}
	}
	if len(t.steps) > maxSteps {
		slices.SortStableFunc(t.steps, func(a, b step) int { return len(b.words) - len(a.words) })
		t.steps = t.steps[:maxSteps]
	}
	return t
}

// correct makes of misspelt words those of the collection that were meant.
func (t *task) correct(c *registry.Collection) {
	for i := range t.words {
		was := t.words[i].text
		meant := c.Correct(was)
		if meant == was {
			continue
		}
		t.words[i].text, t.words[i].synonyms = meant, wordLists().synonyms[meant]
		replace(t.text, was, meant)
		for _, s := range t.steps {
			replace(s.text, was, meant)
		}
	}
}

func replace(all []string, was, is string) {
	for i := range all {
		if all[i] == was {
			all[i] = is
		}
	}
}

// stepEnds is what stands between the steps of a task.
var stepEnds = regexp.MustCompile(`[.!?;:]\s|[\n•;。！？；，]|,\s|\s[—–-]\s|—|\b(?:then|and|also)\b`)

// step makes a step of words of the task. Chatter that stands alone is no step.
func (t *task) step(text []string, index map[string]int) (s step) {
	for _, w := range text {
		i, ok := index[w]
		if !ok {
			continue
		}
		s.text = append(s.text, w)
		if !slices.Contains(s.words, i) {
			s.words = append(s.words, i)
		}
	}
	return s
}

// weight says how telling the word is of what the task is about. A word that no
// tool has may be what no tool can do, or just a name, so it counts half. What
// is done counts a quarter beside what it is done to: "delete" says little about
// which tool, "invoice" much. A foreign word counts a third, as the English ones
// that it comes with say most of it. Numbers are arguments and say nothing.
func (w *word) weight(c *registry.Collection) float64 {
	if strings.Trim(w.text, "0123456789") == "" {
		return 0
	}
	weight := c.IDF(w.text)
	if !c.Has(w.text) {
		weight /= 2
	}
	if w.foreign {
		weight /= 3
	}
	if w.general() {
		weight /= 4
	}
	return weight
}

// general reports whether tools of all kinds have the word.
func (w *word) general() bool { return wordLists().general[w.text] }

// searchWords returns what to search for, and the weight of each word.
func searchWords(words []word) map[string]float64 {
	weights := make(map[string]float64)
	for _, w := range words {
		for _, synonym := range w.synonyms {
			weights[synonym] = synonymWeight
		}
	}
	for _, w := range words {
		weights[w.text] = 1
	}
	return weights
}

//go:embed chatter.txt
var chatterList string

//go:embed general.txt
var generalList string

//go:embed actions.txt
var actionList string

//go:embed synonyms.txt
var synonymList string

// lists holds the word lists in the form that registry.Words gives to words.
type lists struct {
	chatter  map[string]bool     // how people ask, whatever they ask for
	general  map[string]bool     // actions and qualities that tools of all kinds have
	actions  map[string]bool     // with which a task may begin
	synonyms map[string][]string // sorted, without the word itself
}

var wordLists = sync.OnceValue(func() lists {
	l := lists{chatter: wordSet(chatterList), general: wordSet(generalList), actions: wordSet(actionList), synonyms: make(map[string][]string)}
	for line := range strings.Lines(synonymList) {
		group := registry.Words(line)
		if strings.HasPrefix(line, "#") {
			continue
		}
		for _, w := range group {
			l.synonyms[w] = append(l.synonyms[w], group...)
		}
	}
	for w, others := range l.synonyms {
		slices.Sort(others)
		l.synonyms[w] = slices.DeleteFunc(slices.Compact(others), func(o string) bool { return o == w })
	}
	return l
})

func wordSet(list string) map[string]bool {
	set := make(map[string]bool)
	for _, w := range registry.Words(list) {
		set[w] = true
	}
	return set
}
