package index

import (
	_ "embed"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/blevesearch/snowballstem"
	"github.com/blevesearch/snowballstem/english"

	"github.com/mcp-metarouter/metarouter/internal/lazy"
)

//go:embed stopwords.txt
var stopWordList string

var stopWords = lazy.Words(stopWordList)

// maxWordLen bounds a word in bytes: a longer one is encoded data, not a word.
const maxWordLen = 64

// Words returns a text as the words by which it is found: split where it is
// not a letter or digit and where an identifier changes case ("getHTTPUrl" is
// get, http, url), in lower case, without English stop words unless there is
// nothing else, each reduced to its stem by the English Snowball stemmer. In
// scripts that do not put spaces between words (Han, Kana) each character is a
// word.
func Words(text string) []string { return make(Stemmer).Words(text) }

// A Stemmer reduces words to their stems and remembers them: stemming is most
// of the work of indexing, and the words of a catalog repeat. Make it for texts of
// bounded length.
type Stemmer map[string]string

// Words is as the function [Words].
func (s Stemmer) Words(text string) []string {
	all := split(text)
	words := slices.DeleteFunc(slices.Clone(all), func(w string) bool { return stopWords()[w] })
	if len(words) == 0 {
		words = all
	}
	for i, w := range words {
		words[i] = s.stem(w)
	}
	return words
}

func (s Stemmer) stem(word string) string {
	if stem, ok := s[word]; ok {
		return stem
	}
	stem, apart := kept[word]
	if !apart {
		stem = strings.Clone(word) // so as not to hold on to the whole text
	}
	if len(word) > 2 && !apart {
		env := snowballstem.NewEnv(word)
		english.Stem(env)
		stem = env.Current()
	}
	s[word] = stem
	return stem
}

// kept are the stems of words that the stemmer would make equal to words of another meaning:
// customer and custom, container and contain, terminate and terminal.
var kept = map[string]string{
	"customer": "customer", "customers": "customer", "container": "container", "containers": "container",
	"terminate": "terminat", "terminates": "terminat", "terminated": "terminat", "terminating": "terminat", "termination": "terminat",
	"important": "important", "importance": "important", "university": "university", "universities": "university",
	"organization": "organization", "organizations": "organization", "organisation": "organization", "organisations": "organization",
	"executive": "executive", "executives": "executive", "paste": "paste", "pastes": "paste", "pasted": "paste", "pasting": "paste",
}

// Joined returns the names in a text that are written as two words in one, such as MySQL or
// GitHub, as one word each. They begin with a capital. [Words] returns the two.
func (s Stemmer) Joined(text string) (names []string) {
	for name := range strings.FieldsFuncSeq(text, func(r rune) bool { return !unicode.IsLetter(r) }) {
		first, size := utf8.DecodeRuneInString(name)
		if len(name) <= maxJoined && unicode.IsUpper(first) && strings.ContainsFunc(name[size:], unicode.IsUpper) && len(split(name)) == 2 {
			names = append(names, s.stem(strings.ToLower(name)))
		}
	}
	return names
}

// maxJoined bounds a name of two words in bytes: a longer one is an identifier.
const maxJoined = 12

// split cuts a text into words in lower case.
func split(text string) []string {
	var words []string
	start := -1 // of the word that is being read, or -1
	var before rune
	end := func(i int) {
		if start >= 0 && i-start <= maxWordLen {
			words = append(words, strings.ToLower(text[start:i]))
		}
		start = -1
	}
	for i, r := range text {
		switch {
		case !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r):
			end(i)
		case unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana):
			end(i)
			words = append(words, string(r))
		case start < 0:
			start = i
		case unicode.IsUpper(r) && (unicode.IsLower(before) || lowerAt(text, i+utf8.RuneLen(r))):
			end(i)
			start = i
		}
		before = r
	}
	end(len(text))
	return words
}

// lowerAt reports whether a lower-case letter starts at byte i of the text.
func lowerAt(text string, i int) bool {
	r, _ := utf8.DecodeRuneInString(text[i:])
	return unicode.IsLower(r)
}
