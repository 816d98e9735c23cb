package text

import (
	_ "embed"
	"slices"
	"strings"
	"sync"

	"github.com/mcp-metarouter/metarouter/internal/analysis"
)

// A phrase of people, and the words of tools for it.
type phrase struct {
	stems []string // of its words, but for small ones
	means []string // as analysis.Words returns them
}

//go:embed everyday.txt
var everydayList string

// everyday holds the phrases of everyday.txt by their first stem, the longest first.
var everyday = sync.OnceValue(func() map[string][]phrase {
	all, stemmer := make(map[string][]phrase), make(analysis.Stemmer)
	for line := range strings.Lines(everydayList) {
		phrases, means, ok := strings.Cut(line, ":")
		if !ok || strings.HasPrefix(line, "#") {
			continue
		}
		for one := range strings.SplitSeq(phrases, ",") {
			stems := phraseStems(one, stemmer)
			all[stems[0]] = append(all[stems[0]], phrase{stems, analysis.Words(means)})
		}
	}
	for _, phrases := range all {
		slices.SortStableFunc(phrases, func(a, b phrase) int { return len(b.stems) - len(a.stems) })
	}
	return all
})

// sayings returns the stems of a text without small words such as "the".
func sayings(text string, stems analysis.Stemmer) []string {
	return slices.DeleteFunc(stems.Stems(text), func(w string) bool { return wordLists().small[w] })
}

// phraseStems returns the stems of a phrase of the list, with its values, such as <path>.
func phraseStems(phrase string, stemmer analysis.Stemmer) (stems []string) {
	for word := range strings.FieldsSeq(phrase) {
		if strings.HasPrefix(word, "<") {
			stems = append(stems, word)
			continue
		}
		stems = append(stems, sayings(word, stemmer)...)
	}
	return stems
}

// withValues returns the stems of a task's plain text, with its values where they stood. A
// date leaves words that phrases know.
func withValues(plain string, spots []spot, stems analysis.Stemmer) (tokens []string) {
	last := 0
	for _, s := range spots {
		if s.kind == analysis.DateType {
			continue
		}
		tokens = append(append(tokens, sayings(plain[last:s.at], stems)...), "<"+s.kind.String()+">")
		last = s.at
	}
	return append(tokens, sayings(plain[last:], stems)...)
}

// translate gives words of the task the words of tools for them.
func (t *Task) translate(tokens []string) { eachPhrase(tokens, t.mean) }

// eachPhrase calls f for the phrases of the list that a text has. Where they overlap, the
// first and longest one counts.
func eachPhrase(tokens []string, f func(phrase)) {
	for i := 0; i < len(tokens); i++ {
		for _, p := range everyday()[tokens[i]] {
			if len(p.stems) > len(tokens)-i || !slices.Equal(p.stems, tokens[i:i+len(p.stems)]) {
				continue
			}
			f(p)
			i += len(p.stems) - 1
			break
		}
	}
}

// aboutValue reports whether a text has a phrase with a value, such as "what is in <path>".
func aboutValue(tokens []string) (found bool) {
	eachPhrase(tokens, func(p phrase) {
		found = found || slices.ContainsFunc(p.stems, func(w string) bool { return strings.HasPrefix(w, "<") })
	})
	return found
}

// mean gives the words of a phrase what it means. If none of them is a word of the task, as
// none of "how many" is, the phrase becomes one, which no tool has.
func (t *Task) mean(p phrase) {
	met := false
	for k := range t.Words {
		if w := &t.Words[k]; slices.Contains(p.stems, w.Text) {
			w.Synonyms = without(union(slices.Clone(w.Synonyms), p.means), w.Text)
			met = true
		}
	}
	text := strings.Join(p.stems, " ")
	if !met && !slices.ContainsFunc(t.Words, func(w Word) bool { return w.Text == text }) {
		t.Words = append(t.Words, Word{Text: text, Synonyms: without(slices.Clone(p.means), ""), Optional: true})
	}
}

// without returns the words sorted, without one.
func without(words []string, word string) []string {
	slices.Sort(words)
	return slices.DeleteFunc(words, func(w string) bool { return w == word })
}
