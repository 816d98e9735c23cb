package selector

import (
	_ "embed"
	"slices"
	"strings"
	"sync"

	"github.com/mcp-metarouter/metarouter/registry"
)

// A word is a word of a task.
type word struct {
	text     string   // as registry.Words returns it
	count    int      // how often the task has it
	synonyms []string // other words for the same, sorted
}

// maxTask bounds, in bytes, what is read of a task.
const maxTask = 64 << 10

// parse returns the words of a task in order of their first appearance, without
// chatter such as "please" unless there is nothing else.
func parse(task string) []word {
	lists := wordLists()
	all := registry.Words(task[:min(len(task), maxTask)])
	content := slices.DeleteFunc(slices.Clone(all), func(w string) bool { return lists.chatter[w] })
	if len(content) == 0 {
		content = all
	}
	seen := make(map[string]int, len(content))
	var words []word
	for _, w := range content {
		i, ok := seen[w]
		if !ok {
			i = len(words)
			seen[w] = i
			words = append(words, word{text: w, synonyms: lists.synonyms[w]})
		}
		words[i].count++
	}
	return words
}

// weight says how telling the word is of what the task is about. A word that no
// tool has may be what no tool can do, or just a name, so it counts half. What
// is done counts a quarter beside what it is done to: "delete" says little about
// which tool, "invoice" much. Numbers are arguments and say nothing.
func (w *word) weight(c *registry.Collection) float64 {
	if strings.Trim(w.text, "0123456789") == "" {
		return 0
	}
	weight := c.IDF(w.text)
	if !c.Has(w.text) {
		weight /= 2
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

//go:embed synonyms.txt
var synonymList string

// lists holds the word lists in the form that registry.Words gives to words.
type lists struct {
	chatter  map[string]bool     // how people ask, whatever they ask for
	general  map[string]bool     // actions and qualities that tools of all kinds have
	synonyms map[string][]string // sorted, without the word itself
}

var wordLists = sync.OnceValue(func() lists {
	l := lists{chatter: wordSet(chatterList), general: wordSet(generalList), synonyms: make(map[string][]string)}
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
