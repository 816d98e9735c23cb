package classify

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/blevesearch/snowballstem"
	"github.com/blevesearch/snowballstem/english"

	"github.com/mcp-metarouter/metarouter/internal/lazy"
)

// number replaces numbers, so that unseen numbers count too.
const number = "#"

// maxWord is the length in bytes of the longest word. Longer ones are encoded data.
const maxWord = 64

var (
	// token is a character of a script without spaces, letters with compounds, a number, or a symbol of formulas and
	// source code, which prose rarely has.
	token = lazy.Regexp(`[\p{Han}\p{Hiragana}\p{Katakana}]|[\p{L}\p{M}](?:['’\p{L}\p{M}]|[-/]\p{L})*|\p{Nd}[\p{Nd}.,]*|[-+*/^=<>×÷·√∫∑≤≥≠%(){}\[\];_$|&\\@]`)

	// stopWords say little about the category of a text, but not nothing.
	stopWords = lazy.Words(`a about am an and any are as at be been but by can could did do does for from get give had has
	have he her here his how i if in into is it its just may me might more most much my no not of on one or our out over
	please she should so some than that the their them then there these they this those to up us very was we were what
	what's when where which who whom whose why will with would you your`)
)

// split cuts a text into words in lower case, numbers, and operators.
func split(text string) (words []string) {
	for _, t := range token().FindAllString(text, -1) {
		parts := []string{t}
		if first, _ := utf8.DecodeRuneInString(t); unicode.IsDigit(first) && len(t) <= maxWord {
			parts[0] = number
		} else if unicode.IsLetter(first) {
			parts = strings.FieldsFunc(strings.ToLower(t), func(r rune) bool { return r == '-' || r == '/' })
		}
		for _, w := range parts {
			if len(w) <= maxWord {
				words = append(words, strings.TrimSuffix(strings.ReplaceAll(w, "’", "'"), "'"))
			}
		}
	}
	return words
}

// stem reduces an English word to its stem.
func stem(word string) string {
	if len(word) <= 2 {
		return word
	}
	env := snowballstem.NewEnv(word)
	english.Stem(env)
	return env.Current()
}
