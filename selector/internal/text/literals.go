package text

import (
	_ "embed"
	"strings"
	"sync"

	"github.com/mcp-metarouter/metarouter/internal/analysis"
)

// A Literal is a value in a task, such as a path, that a tool is to get as an argument. Its
// characters are not words of the task.
type Literal struct {
	Type      analysis.Type
	Text      string // as it stands in the task
	Extension string // of a file name, in lower case without the dot; may be ""
}

// maxLiterals bounds how many literals of a task are found; the text after them stays words.
const maxLiterals = 64

// A value is a literal before it is taken out of a task.
type value struct {
	kind      analysis.Type
	extension string
	optional  string // words that count where a tool has them
	unit      string // the unit of a number, which stays a word
}

//go:embed values.txt
var valueList string

// values holds the words of values.txt by kind.
var values = sync.OnceValue(func() map[string]map[string]bool {
	all := make(map[string]map[string]bool)
	for line := range strings.Lines(valueList) {
		kind, words, ok := strings.Cut(line, ":")
		if !ok || strings.HasPrefix(line, "#") {
			continue
		}
		all[kind] = make(map[string]bool)
		for w := range strings.FieldsSeq(words) {
			all[kind][w] = true
		}
	}
	return all
})

// isA reports whether values.txt lists the word, in any case, as of the kind.
func isA(kind, word string) bool {
	const longest = 16
	return len(word) <= longest && values()[kind][strings.ToLower(word)]
}
