package text

import (
	_ "embed"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/mcp-metarouter/metarouter/internal/analysis"
)

// maxForeign bounds the words that foreignWords returns.
const maxForeign = 256

// maxForeignLen bounds a foreign word in bytes.
const maxForeignLen = 64

// foreignWords returns the English words, as analysis.Words does, that the
// foreign words of a task stand for, in order and without repeats. Han and Kana
// always count; words in Latin letters do where the task is not in English.
func foreignWords(task string) []string {
	task = task[:min(len(task), MaxTask)]
	l := foreignLexicon()
	latin, han := l.languages(task)
	if !latin && !han {
		return nil
	}
	var english []string
	for token, isHan := range foreignTokens(task) {
		switch {
		case len(english) >= maxForeign:
			return english[:maxForeign]
		case isHan:
			for len(token) > 0 && len(english) < maxForeign {
				words, size := l.longestTerm(token)
				english = union(english, words)
				token = token[size:]
			}
		case latin && len(token) <= maxForeignLen:
			english = union(english, l.translate(string(token)))
		}
	}
	return english[:min(len(english), maxForeign)]
}

// A lexicon holds foreign.txt and the English word lists.
// Its words are folded; the words that they stand for are as analysis.Words returns them.
type lexicon struct {
	terms    map[string][]string // the English words for a word; empty for words without meaning
	stems    map[string][]string // the English words for the words with a stem
	longest  int                 // bytes in the longest term of Han and Kana
	stop     map[string]bool     // foreign words that mean nothing, as analysis.Words returns them
	evidence map[string]int      // of a foreign task, below zero of an English one
}

// Kinds of words as evidence of a task's language: words that only hold a
// sentence together say more than those for things, which languages borrow from
// each other.
const (
	functionWord = 2
	contentWord  = 1
)

// languages reports whether the task has foreign words in Latin letters, and
// whether it has Han or Kana. The former is so where the evidence is for it, by
// some margin if there are English words, as English tasks quote foreign names;
// and also if no word is known, since it may be another form of a foreign word.
func (l *lexicon) languages(task string) (latin, han bool) {
	evidence, margin, known := 0, 0, false
	for token, isHan := range foreignTokens(task) {
		if isHan {
			han = true
		} else if len(token) > 1 {
			e, ok := l.evidence[string(token)]
			evidence += e
			known = known || ok
			if e < 0 {
				margin = contentWord
			}
		}
	}
	return evidence > margin || !known, han
}

// longestTerm returns the English words for the longest term that a run of Han and
// Kana starts with, and its size: nothing and the size of one character without a term.
func (l *lexicon) longestTerm(run []byte) ([]string, int) {
	const size = 3 // of one character; rare ones have more, and no term has those
	for n := min(l.longest, len(run)/size*size); n > 0; n -= size {
		if english, ok := l.terms[string(run[:n])]; ok {
			return english, n
		}
	}
	_, n := utf8.DecodeRune(run)
	return nil, n
}

// minPart is the length of the shortest stem, and of the shortest part of a
// compound.
const minPart = 4

// translate returns the English words that a folded word stands for: as it is,
// by its stem, or as a German compound of two words.
func (l *lexicon) translate(word string) []string {
	if english, ok := l.lookup(word); ok {
		return english
	}
	for i := len(word) - minPart; i >= minPart; i-- {
		tail, ok := l.lookup(word[i:])
		if !ok {
			continue
		}
		for _, link := range []string{"", "s", "n", "en", "es"} {
			head, ok := strings.CutSuffix(word[:i], link)
			if !ok || len(head) < minPart {
				continue
			}
			if english, ok := l.lookup(head); ok {
				return slices.Concat(english, tail)
			}
		}
	}
	return nil
}

// lookup returns the English words for a folded word, as it is or by its stem.
func (l *lexicon) lookup(word string) ([]string, bool) {
	if english, ok := l.terms[word]; ok {
		return english, true
	}
	english, ok := l.stems[foreignStem(word)]
	return english, ok
}

// endings are the endings of verbs, nouns and adjectives, the longest first.
var endings = strings.Fields("iendo ando en er es em et st ar ir as os an ez a e i n o s t")

// foreignStem takes the ending off a folded word.
func foreignStem(word string) string {
	for _, ending := range endings {
		if stem, ok := strings.CutSuffix(word, ending); ok && len(stem) >= minPart {
			return stem
		}
	}
	return word
}

// foreignTokens yields the words of a text, folded, and its runs of Han and
// Kana; identifiers are split where they change case. The bytes are good until
// the next.
func foreignTokens(text string) iter.Seq2[[]byte, bool] {
	return func(yield func(token []byte, isHan bool) bool) {
		var buffer [maxForeignLen]byte
		token, isHan := buffer[:0], false
		var before rune
		for _, r := range text {
			han := r >= 0x3000 && unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana) || r == 'ー'
			letter := han || unicode.IsLetter(r) || unicode.IsMark(r) || unicode.IsDigit(r)
			if len(token) > 0 && (!letter || han != isHan || unicode.IsUpper(r) && unicode.IsLower(before)) {
				if !yield(token, isHan) {
					return
				}
				token = token[:0]
			}
			if letter {
				token, isHan = foldRune(token, r), han
			}
			before = r
		}
		if len(token) > 0 {
			yield(token, isHan)
		}
	}
}

// foldRune appends a character of a word in lower case and without its accent.
func foldRune(word []byte, r rune) []byte {
	const plain = "aaaaaaaceeeeiiiidnooooo/ouuuuypy" // for U+00E0 to U+00FF
	switch r = unicode.ToLower(r); {
	case r == 'ß':
		return append(word, "ss"...)
	case r >= 'à' && r <= 'ÿ':
		return append(word, plain[r-'à'])
	case r >= 0x300 && r <= 0x36F: // an accent on its own
		return word
	}
	return utf8.AppendRune(word, r)
}

//go:embed foreign.txt
var foreignList string

// foreignLexicon reads foreign.txt. English words come last, so that in a foreign
// task those for things stand for themselves.
var foreignLexicon = sync.OnceValue(func() *lexicon {
	l := &lexicon{
		terms: make(map[string][]string), stems: make(map[string][]string),
		stop: make(map[string]bool), evidence: make(map[string]int),
	}
	foreign, english := make(map[string]int), make(map[string]int)
	note := func(evidence map[string]int, list string, weight int) {
		for w := range foreignTokens(list) {
			evidence[string(w)] = max(evidence[string(w)], weight)
		}
	}
	for line := range strings.Lines(foreignList) {
		key, list, ok := strings.Cut(line, ":")
		if !ok || strings.HasPrefix(line, "#") {
			continue
		}
		switch key {
		case "ENGLISH":
			note(english, list, functionWord)
		case "BOTH":
			note(english, list, functionWord)
			note(foreign, list, functionWord)
		case "STOP":
			note(foreign, list, functionWord)
			l.addStops(list)
		default:
			note(english, key, contentWord)
			note(foreign, list, contentWord)
			l.addTerms(list, analysis.Words(key))
		}
	}
	note(english, chatterList, functionWord)
	note(english, generalList, contentWord)
	note(english, synonymList, contentWord)
	for w, weight := range maps.Clone(english) {
		english[w+"s"] = max(english[w+"s"], weight)
	}
	maps.Copy(l.evidence, foreign)
	for _, w := range slices.Sorted(maps.Keys(english)) {
		switch {
		case foreign[w] > 0:
			l.evidence[w] = 0
		case english[w] == contentWord: // German has "screenshot", too
			l.addTerms(w, analysis.Words(w))
			fallthrough
		default:
			l.evidence[w] = -english[w]
		}
	}
	return l
})

// addTerms adds words that stand for the English ones.
func (l *lexicon) addTerms(list string, english []string) {
	for token, isHan := range foreignTokens(list) {
		w := string(token)
		l.terms[w] = union(l.terms[w], english)
		if isHan {
			l.longest = max(l.longest, len(w))
		} else {
			stem := foreignStem(w)
			l.stems[stem] = union(l.stems[stem], english)
		}
	}
}

// addStops adds words that mean nothing.
func (l *lexicon) addStops(list string) {
	l.addTerms(list, nil)
	for field := range strings.FieldsSeq(list) {
		if words := analysis.Words(field); len(words) == 1 {
			l.stop[words[0]] = true
		}
	}
}

// union appends to a the words of b that it lacks.
func union(a, b []string) []string {
	for _, w := range b {
		if !slices.Contains(a, w) {
			a = append(a, w)
		}
	}
	return a
}
