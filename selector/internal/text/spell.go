package text

import (
	"cmp"
	"strings"
	"unicode"

	"github.com/mcp-metarouter/metarouter/internal/analysis"
)

// maxSpelled bounds how much of a task is searched for a word, in bytes.
const maxSpelled = 4 << 10

// Speller returns a function that returns the words of a task that have the stems of a text.
func Speller(task string) func(stems string) string {
	task = task[:min(len(task), maxSpelled)]
	whole, plain := WholeWords(task), plainWords(task)
	return func(stems string) string {
		words := strings.Fields(stems)
		for i, stem := range words {
			words[i] = cmp.Or(whole[stem], unstemmed(stem, plain))
		}
		return strings.Join(words, " ")
	}
}

// WholeWords returns the words of a text by their stems.
func WholeWords(text string) map[string]string {
	whole := make(map[string]string)
	for _, w := range plainWords(text[:min(len(text), MaxTask)]) {
		if stems := analysis.Words(w); len(stems) == 1 && whole[stems[0]] == "" {
			whole[stems[0]] = w
		}
	}
	return whole
}

// unstemmed returns the one of the words that has the stem, or the stem itself.
func unstemmed(stem string, words []string) string {
	begins := []string{stem}
	if len(stem) > 3 {
		begins = append(begins, stem[:len(stem)-1]) // library is librari
	}
	for _, begin := range begins {
		for _, w := range words {
			if begin != "" && strings.HasPrefix(strings.ToLower(w), begin) {
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
