package capability

import (
	"slices"
	"strings"
	"sync"
	"unicode"

	"github.com/mcp-metarouter/metarouter/internal/lazy"
	"github.com/mcp-metarouter/metarouter/internal/wire"
)

var address = lazy.Regexp(`[A-Za-z][A-Za-z0-9+.-]*://\S+`)

// prose returns the lower-case words of a text. A URL counts as the word url, since its
// parts say nothing about the tool.
func prose(text string) []string {
	if strings.Contains(text, "://") { // to look for the pattern takes more time than all the rest
		text = address().ReplaceAllString(text, " url ")
	}
	return split(strings.ToLower(text))
}

// identifier returns the lower-case words of a name in camelCase, snake_case or
// kebab-case, followed by adjacent parts of camelCase joined in pairs: GitHub is one word,
// getFile is two.
func identifier(name string) []string {
	var words, joined []string
	for _, part := range split(name) {
		humps := camel(part)
		for i, hump := range humps {
			humps[i] = strings.ToLower(hump)
			if i > 0 {
				joined = append(joined, humps[i-1]+humps[i])
			}
		}
		words = append(words, humps...)
	}
	return append(words, joined...)
}

func split(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
}

// camel splits before each capital that comes after a small letter or a digit, or before a
// small letter: getURLOf is get, URL and Of.
func camel(s string) (humps []string) {
	runes := []rune(s)
	from := 0
	for i := 1; i < len(runes); i++ {
		follows := !unicode.IsUpper(runes[i-1])
		followed := i+1 < len(runes) && unicode.IsLower(runes[i+1])
		if unicode.IsUpper(runes[i]) && (follows || followed) {
			humps = append(humps, string(runes[from:i]))
			from = i
		}
	}
	return append(humps, string(runes[from:]))
}

// parameters returns the words of the names of a schema's properties, with an
// empty word between the names.
func parameters(schema []byte) []string {
	names := wire.Keys(wire.Member(schema, "properties"))
	const most = 100 // the more there are, the less each says
	slices.Sort(names)
	var words []string
	for _, name := range names[:min(len(names), most)] {
		words = append(append(words, identifier(name)...), "")
	}
	return words
}

// firstSentence returns the first sentence of a description, or its first line
// if that ends sooner. A line of one or two words is a heading, not a sentence,
// unless it is all there is.
func firstSentence(text string) string {
	text = strings.TrimSpace(text)
	for line := range strings.Lines(text) {
		if len(strings.Fields(line)) > 2 {
			text = line
			break
		}
	}
	text, _, _ = strings.Cut(text, ". ")
	return text
}

func stems(words []string) []string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = stem(w)
	}
	return out
}

func stemSet(words string) func() map[string]bool {
	return sync.OnceValue(func() map[string]bool { return lazy.Words(strings.Join(stems(strings.Fields(words)), " "))() })
}

// stem removes inflection from an English word, and nothing more: create, creates, created
// and creating have one stem, navigate and navigation have two. A stem need not be a word.
func stem(w string) string {
	if len(w) <= 3 || w == "news" {
		return w
	}
	switch {
	case strings.HasSuffix(w, "ss"), strings.HasSuffix(w, "us"), strings.HasSuffix(w, "is"):
	default:
		w = strings.TrimSuffix(w, "s")
	}
	for _, ending := range []string{"ing", "ed"} {
		if base, ok := strings.CutSuffix(w, ending); ok && len(base) > 2 && strings.ContainsAny(base, "aeiouy") {
			w = base
			if n := len(w); n > 3 && w[n-1] == w[n-2] && !strings.ContainsRune("lsz", rune(w[n-1])) {
				w = w[:n-1] // dropped, but not filled
			}
			break
		}
	}
	if len(w) > 3 {
		w = strings.TrimSuffix(w, "e")
	}
	if base, ok := strings.CutSuffix(w, "y"); ok && len(w) > 3 {
		w = base + "i" // query, queries
	}
	return w
}
