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
)

// maxForeignLen bounds a foreign word in bytes.
const maxForeignLen = 64

// english returns a task with English words in the place of foreign ones, as far as the lexicon has them. Han
// and Kana are always translated; words in Latin letters are where the task is not in English.
func english(task string) string {
	l := foreignLexicon()
	latin, known, han := l.languages(task)
	return l.replaced(task, latin || !known, han)
}

// WithEnglish returns the text of a tool with English words in the place of foreign ones, if it is in another language.
func WithEnglish(text string) string {
	l := foreignLexicon()
	latin, _, han := l.languages(text)
	return l.replaced(text, latin, han)
}

// replaced returns a text with English words in the place of terms of Han and Kana, and of words in Latin letters with latin.
func (l *lexicon) replaced(task string, latin, han bool) string {
	if !latin && !han {
		return task
	}
	var out strings.Builder
	end := 0 // of what is written
	for t := range foreignTokens(task) {
		translation, known := "", false
		switch {
		case t.isHan:
			translation = l.run(t.folded)
			known = translation != ""
		case latin && len(t.folded) <= maxForeignLen:
			var words []string
			words, known = l.translate(string(t.folded))
			translation = strings.Join(words, " ")
		}
		if known {
			out.WriteString(task[end:t.start] + " " + translation + " ")
			end = t.end
		}
	}
	return out.String() + task[end:]
}

// run returns the English words for a run of Han and Kana.
func (l *lexicon) run(folded []byte) string {
	var all []string
	for len(folded) > 0 {
		words, size := l.longestTerm(folded)
		all = append(all, words...)
		folded = folded[size:]
	}
	return strings.Join(all, " ")
}

// A lexicon holds foreign.txt and the English word lists.
// Its words are folded.
type lexicon struct {
	terms    map[string][]string // the English words for a word; empty for words without meaning
	stems    map[string][]string // the English words for the words with a stem
	longest  int                 // bytes in the longest term of Han and Kana
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
// some margin if there are English words, as English tasks quote foreign names. If no
// word is known, each may be another form of a foreign word.
func (l *lexicon) languages(task string) (latin, known, han bool) {
	evidence, margin := 0, 0
	for t := range foreignTokens(task) {
		if t.isHan {
			han = true
		} else if len(t.folded) > 1 {
			e, ok := l.evidence[string(t.folded)]
			evidence += e
			known = known || ok
			if e < 0 {
				margin = contentWord
			}
		}
	}
	return evidence > margin, known, han
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
func (l *lexicon) translate(word string) (english []string, known bool) {
	if english, ok := l.lookup(word); ok {
		return english, true
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
				return slices.Concat(english, tail), true
			}
		}
	}
	return nil, false
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

// A token is a word of a text, or a run of Han and Kana.
type token struct {
	folded     []byte // good until the next token
	start, end int    // in the text
	isHan      bool
}

// foreignTokens yields the words of a text, folded, and its runs of Han and
// Kana; identifiers are split where they change case.
func foreignTokens(text string) iter.Seq[token] {
	return func(yield func(token) bool) {
		var buffer [maxForeignLen]byte
		t := token{folded: buffer[:0]}
		var before rune
		for i, r := range text {
			han := r >= 0x3000 && unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana) || r == 'ー'
			letter := han || unicode.IsLetter(r) || unicode.IsMark(r) || unicode.IsDigit(r)
			if len(t.folded) > 0 && (!letter || han != t.isHan || unicode.IsUpper(r) && unicode.IsLower(before)) {
				if t.end = i; !yield(t) {
					return
				}
				t.folded = t.folded[:0]
			}
			if letter {
				if len(t.folded) == 0 {
					t.start, t.isHan = i, han
				}
				t.folded = foldRune(t.folded, r)
			}
			before = r
		}
		if t.end = len(text); len(t.folded) > 0 {
			yield(t)
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

// foreignLexicon reads foreign.txt.
var foreignLexicon = sync.OnceValue(func() *lexicon {
	l := &lexicon{terms: make(map[string][]string), stems: make(map[string][]string), evidence: make(map[string]int)}
	english := make(map[string]int) // evidence of a task in English
	note := func(evidence map[string]int, list string, weight int) {
		for t := range foreignTokens(list) {
			evidence[string(t.folded)] = max(evidence[string(t.folded)], weight)
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
		case "THINGS":
			note(english, list, contentWord)
		case "BOTH":
			note(english, list, functionWord)
			note(l.evidence, list, functionWord)
		case "STOP":
			note(l.evidence, list, functionWord)
			l.addTerms(list, nil)
		default:
			note(english, key, contentWord)
			note(l.evidence, list, contentWord)
			l.addTerms(list, strings.Fields(key))
		}
	}
	note(english, chatterList, functionWord)
	for w, weight := range maps.Clone(english) {
		english[w+"s"] = max(english[w+"s"], weight)
	}
	for w, weight := range english {
		if l.evidence[w] > 0 { // it is a word of both
			weight = 0
		}
		l.evidence[w] = -weight
	}
	return l
})

// addTerms adds words that stand for the English ones.
func (l *lexicon) addTerms(list string, english []string) {
	for t := range foreignTokens(list) {
		w := string(t.folded)
		l.terms[w] = union(l.terms[w], english)
		if t.isHan {
			l.longest = max(l.longest, len(w))
		} else {
			stem := foreignStem(w)
			l.stems[stem] = union(l.stems[stem], english)
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
