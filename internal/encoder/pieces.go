package encoder

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// Pieces with a meaning of their own.
const (
	unknown = "[UNK]"
	begin   = "[CLS]"
	end     = "[SEP]"
)

// Bounds of a text.
const (
	mostBytes  = 8 << 10 // that are read
	mostTokens = 64      // that are encoded; a model may bound them more
	longest    = 100     // bytes of a word; a longer one is unknown
)

// tokens appends the numbers of the text's pieces to to, which then has at most most, and reports whether these are all. It splits
// as BERT's tokenizer for lower-case English does.
func (m *Model) tokens(text string, to []int32, most int) (all []int32, whole bool) {
	for word := range words(text[:min(len(text), mostBytes)]) {
		if to = m.split(word, to); len(to) > most {
			return to[:most], false
		}
	}
	return to, len(text) <= mostBytes
}

// split appends the longest piece that the word begins with, the longest that goes on from there,
// and so on; or unknown if no piece fits.
func (m *Model) split(word string, to []int32) []int32 {
	known, key := len(to), make([]byte, 0, len("##")+longest)
	for at := 0; at < len(word); {
		stop := len(word)
		for ; stop > at && stop <= longest; stop-- {
			key = append(key[:0], "##"[:min(2, 2*at)]...)
			if n, ok := m.vocabulary[string(append(key, word[at:stop]...))]; ok {
				to = append(to, n)
				break
			}
		}
		if stop == at || stop > longest {
			return append(to[:known], m.vocabulary[unknown])
		}
		at = stop
	}
	return to
}

// words yields the words and the punctuation marks of a text, in lower case and without accents.
func words(text string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		plain := norm.NFD.String(strings.ToLower(strings.ToValidUTF8(text, "")))
		var word strings.Builder
		flush := func() bool {
			s := word.String()
			word.Reset()
			return s == "" || yield(s)
		}
		for _, r := range plain {
			switch {
			case unicode.Is(unicode.Mn, r), r == utf8.RuneError, r != '\t' && r != '\n' && r != '\r' && unicode.Is(unicode.C, r):
			case unicode.IsSpace(r):
				if !flush() {
					return
				}
			case isMark(r) || unicode.Is(unicode.Han, r):
				if !flush() || !yield(string(r)) {
					return
				}
			default:
				word.WriteRune(r)
			}
		}
		flush()
	}
}

func isMark(r rune) bool {
	if r < utf8.RuneSelf {
		return r > ' ' && !('0' <= r && r <= '9') && !('a' <= r && r <= 'z') && !('A' <= r && r <= 'Z')
	}
	return unicode.IsPunct(r)
}
