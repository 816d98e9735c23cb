// Package text turns a task, in the words of a person or a model, into the form that ranking
// compares: words, their synonyms, the English for foreign words, and the steps that a
// task has.
package text

import (
	_ "embed"
	"slices"
	"strings"
	"sync"

	"github.com/mcp-metarouter/metarouter/internal/analysis"
	"github.com/mcp-metarouter/metarouter/internal/lazy"
	"github.com/mcp-metarouter/metarouter/internal/verbs"
)

// A Task is a task as words.
type Task struct {
	Words []Word   // each once, in the order of their first appearance
	Text  []string // all of them, in order
	Raw   string   // the task as it was given
	Steps []Step   // at least one, if there are words

	Verbs []verbs.Set // the actions that the steps ask for, as far as they are known

	Plural   map[string]bool // by word of an English task: whether it is a plural there
	Literals []Literal       // values that tools get as arguments, in order
}

// A Word is a word of a task.
type Word struct {
	Text      string   // as [analysis.Words] returns it
	Synonyms  []string // other words for the same, sorted
	Spellings []string // the same word joined with the next, or split; see [Task.Respell]
	Foreign   bool     // the task is in another language, and so is this word
	Optional  bool     // part of a literal: it counts where a tool has it, and is never missed if no tool has it
}

// A Step is a part of a task that may need a tool of its own.
type Step struct {
	Words []int    // indexes of the task's words, each once
	Text  []string // all of its words, in order
	Plain string   // likewise, of the step alone
}

// Bounds of a task.
const (
	MaxTask  = 64 << 10 // bytes that are read of a task
	maxSteps = 32       // the longest are kept
)

// A reading is a task without its literals.
type reading struct {
	plain    string
	spots    []spot // of literals in plain
	words    []string
	foreign  int            // the index of the first foreign word
	optional map[string]int // how often literals left a word
	literals []Literal
}

// read takes the literals out of a task. If they leave nothing to search for, they are
// the subject of the search.
func read(task string, stems analysis.Stemmer) reading {
	task = task[:min(len(task), MaxTask)]
	latin, _ := foreignLexicon().languages(task)
	found := readLiterals(task, !latin)
	r := reading{plain: found.plain.String(), spots: found.spots, optional: make(map[string]int), literals: found.found}
	if left := found.optional.String(); left != "" {
		for _, w := range stems.Words(left) {
			r.optional[w]++
		}
	}
	r.words, r.foreign = content(r.plain, stems)
	if len(r.literals) > 0 && !r.says() && !aboutValue(withValues(r.plain, r.spots, stems)) {
		r.plain, r.spots = task, nil
		clear(r.optional)
		r.words, r.foreign = content(task, stems)
	}
	return r
}

// says reports whether the words that literals do not need name a subject to search for. Next to a
// quoted text, "find" or "tool" does not.
func (r *reading) says() bool {
	quotes := slices.ContainsFunc(r.literals, func(l Literal) bool {
		return l.Type == analysis.QuotedType || l.Type == analysis.CodeType
	})
	return slices.ContainsFunc(r.words, func(w string) bool {
		return r.optional[w] == 0 && !wordLists().chatter[w] && !(quotes && wordLists().finding[w])
	})
}

// content returns the words of a text without chatter, and the index of the first foreign one.
func content(text string, stems analysis.Stemmer) (words []string, foreign int) {
	all := stems.Words(text)
	english := foreignWords(text)
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

// Parse returns a task as words and literals.
func Parse(text string) Task {
	stems := make(analysis.Stemmer)
	r := read(text, stems)
	t := Task{Text: r.words, Raw: text, Literals: r.literals}
	at := make(map[string]int, len(t.Text))
	for k, w := range t.Text {
		if _, ok := at[w]; !ok {
			at[w] = len(t.Words)
			t.Words = append(t.Words, Word{Text: w, Synonyms: wordLists().synonyms[w], Foreign: k >= r.foreign})
		}
		r.optional[w]--
	}
	for i := range t.Words {
		t.Words[i].Optional = r.optional[t.Words[i].Text] >= 0
	}
	if len(t.Words) == 0 {
		return t
	}
	if r.foreign == len(r.words) {
		t.Plural = stems.Numbers(r.plain)
		t.translate(withValues(r.plain, r.spots, stems))
	}
	t.Verbs = asked(r.plain, t.Text[:r.foreign])
	parts := stepEnds().Split(r.plain, -1)
	for _, part := range parts {
		words := r.words
		if len(parts) > 1 {
			words, _ = content(part, stems)
		}
		if s := t.step(words, at); len(s.Words) > 0 {
			s.Plain = strings.Join(strings.Fields(part), " ")
			t.Steps = append(t.Steps, s)
		}
	}
	if len(t.Steps) == 0 {
		t.Steps = []Step{t.step(t.Text, at)}
		t.Steps[0].Plain = strings.Join(strings.Fields(r.plain), " ")
	}
	if len(t.Steps) > maxSteps {
		slices.SortStableFunc(t.Steps, func(a, b Step) int { return len(b.Words) - len(a.Words) })
		t.Steps = t.Steps[:maxSteps]
	}
	return t
}

// asked returns the actions that the steps of a task ask for. Of a task in another language, the first
// of the English words for it tells.
func asked(text string, english []string) []verbs.Set {
	if foreignWords(text) == nil {
		return verbs.Task(text)
	}
	if v := verbs.Word(english[0]); v != 0 {
		return []verbs.Set{v}
	}
	return nil
}

// Correct replaces misspelt words. correct returns the word that was meant. Words that
// literals left are not misspelt.
func (t *Task) Correct(correct func(word string) string) {
	for i := range t.Words {
		was := t.Words[i].Text
		if t.Words[i].Optional || len(t.Words[i].Spellings) > 0 {
			continue
		}
		meant := correct(was)
		if meant == was {
			continue
		}
		t.Words[i].Text, t.Words[i].Synonyms = meant, wordLists().synonyms[meant]
		replace(t.Text, was, meant)
		for _, s := range t.Steps {
			replace(s.Text, was, meant)
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

// stepEnds matches the text between the steps of a task.
var stepEnds = lazy.Regexp(`[.!?;:]\s|[\n•;。！？；，]|,\s|\s[—–-]\s|—|\b(?:then|and|also)\b`)

// step makes a step of words of the task. Chatter that stands alone is no step.
func (t *Task) step(text []string, index map[string]int) (s Step) {
	for _, w := range text {
		i, ok := index[w]
		if !ok {
			continue
		}
		s.Text = append(s.Text, w)
		if !slices.Contains(s.Words, i) {
			s.Words = append(s.Words, i)
		}
	}
	return s
}

// IsGeneral reports whether tools of all kinds have the word, such as "get".
func (w *Word) IsGeneral() bool { return wordLists().general[w.Text] }

//go:embed chatter.txt
var chatterList string

//go:embed general.txt
var generalList string

//go:embed actions.txt
var actionList string

//go:embed synonyms.txt
var synonymList string

// lists holds the word lists in the form that analysis.Words gives to words.
type lists struct {
	chatter  map[string]bool     // how people ask, whatever they ask for
	general  map[string]bool     // actions and qualities that tools of all kinds have
	actions  map[string]bool     // with which a task may begin
	finding  map[string]bool     // which ask to find something, and do not name it
	small    map[string]bool     // which may stand in a phrase
	synonyms map[string][]string // sorted, without the word itself
}

var wordLists = sync.OnceValue(func() lists {
	l := lists{chatter: wordSet(chatterList), general: wordSet(generalList), actions: wordSet(actionList), synonyms: make(map[string][]string)}
	l.small = wordSet("the a an my our your his her their this these those some just please")
	l.finding = wordSet("find search tool use call run execute invoke look")
	for line := range strings.Lines(synonymList) {
		group := analysis.Words(line)
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
	for _, w := range analysis.Words(list) {
		set[w] = true
	}
	return set
}
