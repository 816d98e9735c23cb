package classify

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/blevesearch/snowballstem"
	"github.com/blevesearch/snowballstem/english"

	"github.com/mcp-metarouter/metarouter/internal/lazy"
)

// Words that replace numbers, so that unseen numbers count too.
const (
	number = "#"
	year   = "#year" // 1001 to 2099
)

// operators are the symbols of formulas and source code, which prose rarely has. Each is
// a word.
const operators = "+-*/^=<>×÷·√∫∑π≤≥≠%(){}[];_$|&\\@"

// firstCJK is where Han and Kana begin.
const firstCJK = '\u2e80'

// maxWord is the length in bytes of the longest word. Longer ones are encoded data.
const maxWord = 64

// stopWords say little about the category of a text, but not nothing.
var stopWords = lazy.Words(`a about am an and any are as at be been but by can could did do does for from get give had has
	have he her here his how i if in into is it its just may me might more most much my no not of on one or our out over
	please she should so some than that the their them then there these they this those to up us very was we were what
	what's when where which who whom whose why will with would you your`)

// split cuts a text into words: runs of letters, numbers, and operators. In
// scripts without spaces (Han, Kana) each character is a word.
func split(text string) []string {
	words := make([]string, 0, len(text)/5)
	start, digits := -1, false // of the word that is being read
	end := func(i int) {
		switch {
		case start < 0 || i-start > maxWord:
		case digits:
			words = append(words, numeral(text[start:i]))
		default:
			w := strings.ReplaceAll(strings.ToLower(text[start:i]), "’", "'")
			words = append(words, strings.TrimSuffix(w, "'"))
		}
		start = -1
	}
	for i, r := range text {
		switch {
		case r >= firstCJK && unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana):
			end(i)
			words = append(words, string(r))
		case unicode.IsDigit(r):
			if start < 0 || !digits {
				end(i)
				start, digits = i, true
			}
		case unicode.IsLetter(r) || unicode.IsMark(r):
			if start < 0 || digits {
				end(i)
				start, digits = i, false
			}
		case start >= 0 && !digits && (r == '\'' || r == '’'), start >= 0 && digits && (r == '.' || r == ','): // may be inside
		case start >= 0 && !digits && (r == '-' || r == '/') && letterAt(text, i+1): // of a compound
			end(i)
		default:
			end(i)
			if strings.ContainsRune(operators, r) {
				words = append(words, string(r))
			}
		}
	}
	end(len(text))
	return words
}

func letterAt(text string, i int) bool {
	r, _ := utf8.DecodeRuneInString(text[i:])
	return unicode.IsLetter(r)
}

// numeral returns the word that replaces a number.
func numeral(s string) string {
	s = strings.TrimRight(s, ".,")
	if len(s) == 4 && s > "1000" && s < "2100" && !strings.ContainsAny(s, ".,") {
		return year
	}
	return number
}

// stem reduces an English word to its stem.
func stem(word string) string {
	if len(word) <= 2 || isSymbol(word) {
		return word
	}
	env := snowballstem.NewEnv(word)
	english.Stem(env)
	return env.Current()
}

// isSymbol reports whether a word of split is a number or an operator.
func isSymbol(word string) bool {
	return strings.HasPrefix(word, number) || len(word) > 0 && strings.Contains(operators, word)
}
