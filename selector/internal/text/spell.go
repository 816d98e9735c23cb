package text

import (
	"cmp"
	"strings"
	"unicode"

	"github.com/mcp-metarouter/metarouter/internal/index"
)

// maxSpelled bounds how much of a task is searched for a word, in bytes.
const maxSpelled = 4 << 10

// Speller returns a function that returns the word of a task that has a stem, or the stem itself.
func Speller(task string) func(stem string) string {
	whole := make(map[string]string)
	separates := func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }
	for _, w := range strings.FieldsFunc(task[:min(len(task), maxSpelled)], separates) {
		if stems := index.Words(w); len(stems) == 1 && whole[stems[0]] == "" {
			whole[stems[0]] = w
		}
	}
	return func(stem string) string { return cmp.Or(whole[stem], stem) }
}
