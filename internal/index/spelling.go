package index

import (
	"cmp"
	"slices"
	"unicode/utf8"
)

// minSpelled is the length in letters of the shortest word that is corrected.
const minSpelled = 5

// A spelling is the words of a collection by their first letter and length, in
// letters.
type spelling map[spelled][]string

type spelled struct {
	first  rune
	length int
}

func newSpelling(docFreq map[string]int) spelling {
	s := make(spelling)
	for word := range docFreq {
		first, _ := utf8.DecodeRuneInString(word)
		key := spelled{first, utf8.RuneCountInString(word)}
		s[key] = append(s[key], word)
	}
	return s
}

// Knows reports whether the collection or the English language has the word.
func (c *Collection) Knows(word string) bool { return c.Has(word) || isEnglish(word) }

// Correct returns the word of the collection that was probably meant by one that is not known: the
// most frequent of those that begin with the same letter and are one letter more, less or other
// away, or two letters swapped. Without such a word it returns the word itself.
func (c *Collection) Correct(word string) string {
	return c.correct(word, func(string) bool { return true })
}

// correct is as Correct, among the words that admits reports true for.
func (c *Collection) correct(word string, admits func(string) bool) string {
	letters := []rune(word)
	if len(letters) < minSpelled || c.Knows(word) {
		return word
	}
	best := ""
	for length := len(letters) - 1; length <= len(letters)+1; length++ {
		for _, other := range c.spelling()[spelled{letters[0], length}] {
			if oneEdit(letters, []rune(other)) && (best == "" || cmp.Or(cmp.Compare(c.docFreq[other], c.docFreq[best]), cmp.Compare(best, other)) > 0) && admits(other) {
				best = other
			}
		}
	}
	return cmp.Or(best, word)
}

// oneEdit reports whether two words that differ are one edit apart.
func oneEdit(a, b []rune) bool {
	if len(a) > len(b) {
		a, b = b, a
	}
	i := 0
	for i < len(a) && a[i] == b[i] {
		i++
	}
	switch {
	case len(a) < len(b):
		return slices.Equal(a[i:], b[i+1:])
	case slices.Equal(a[i+1:], b[i+1:]):
		return true
	}
	return i+1 < len(a) && a[i] == b[i+1] && a[i+1] == b[i] && slices.Equal(a[i+2:], b[i+2:])
}
