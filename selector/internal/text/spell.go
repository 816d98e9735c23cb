package text

import (
	"cmp"
	"strings"
	"unicode"

	"github.com/mcp-metarouter/metarouter/internal/index"
)

// maxSpelled bounds how much of a task is searched for a word, in bytes.
const maxSpelled = 4 << 10

// Speller returns a function that returns the word of a task that has a stem.
func Speller(task string) func(stem string) string {
	plain, whole := plainWords(task[:min(len(task), maxSpelled)]), make(map[string]string)
	for _, w := range plain {
		if stems := index.Words(w); len(stems) == 1 && whole[stems[0]] == "" {
			whole[stems[0]] = w
		}
	}
	return func(stem string) string { return cmp.Or(whole[stem], unstemmed(stem, plain)) }
}

// unstemmed returns the one of the words that has the stem, or the stem itself.
func unstemmed(stem string, words []string) string {
	for _, begin := range []string{stem, stem[:max(0, len(stem)-1)]} { // library is librari
		for _, w := range words {
			if len(begin) > 2 && strings.HasPrefix(strings.ToLower(w), begin) {
				return w
			}
		}
	}
	return stem
}

// plainWords returns the words of a text as they are written.
func plainWords(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
}
