package text

import (
	"slices"

	"github.com/mcp-metarouter/metarouter/internal/analysis"
)

// Bounds of [Task.Respell].
const (
	maxPairs    = 64 // words of a task that are joined with the next
	leastPart   = 3  // letters in a part of a word
	leastJoined = 6  // letters in a word that is split
)

// Respell finds other spellings of the words of a task among the words that tools have: two
// words as one (my sql, mysql), and one as two (readfile, read file).
func (t *Task) Respell(has func(word string) bool) {
	for i := range min(len(t.Text), maxPairs) - 1 {
		a, b := t.Text[i], t.Text[i+1]
		if len(a)+len(b) < leastJoined-1 {
			continue
		}
		if joined := analysis.Words(a + b); len(joined) == 1 && has(joined[0]) {
			t.spell(a, joined[0])
			t.spell(b, joined[0])
		}
	}
	for i := range t.Words {
		if w := &t.Words[i]; len(w.Text) >= leastJoined && !w.Foreign && len(w.Spellings) == 0 && !has(w.Text) {
			w.Spellings = split(w.Text, has)
		}
	}
}

// spell adds another spelling to a word.
func (t *Task) spell(word, spelling string) {
	for i := range t.Words {
		w := &t.Words[i]
		if w.Text == word && spelling != word && !slices.Contains(w.Spellings, spelling) {
			w.Spellings = append(w.Spellings, spelling)
		}
	}
}

// split returns the two words that a word is made of, if tools have both.
func split(word string, has func(string) bool) []string {
	for i := leastPart; i <= len(word)-leastPart; i++ {
		b := word[i:]
		if !has(b) {
			b += "e" // a stem may have lost it
		}
		if !has(b) {
			continue
		}
		if a := analysis.Words(word[:i]); has(a[0]) {
			return []string{a[0], b}
		}
	}
	return nil
}
