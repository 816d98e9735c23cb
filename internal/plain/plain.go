// Package plain makes text of strangers safe to read.
//
// [Line] and [Text] are for a person at a terminal, a page or a log: no control sequence, no
// character that is not seen. [Visible] is for a model: it loses only characters that a person could not
// see. [JSON] escapes the same characters, so that the value stays as it is. A [Writer]
// cleans all that is written to it.
//
// Joiners (U+200C, U+200D) between letters of scripts that join them or in an emoji
// sequence, and variation selectors after an emoji, stay.
package plain

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// ignorable are the characters that fonts draw as nothing (Default_Ignorable_Code_Point of
// Unicode), the interlinear annotations, and the bidirectional controls.
var ignorable = &unicode.RangeTable{
	R16: []unicode.Range16{
		{0x00ad, 0x00ad, 1}, {0x034f, 0x034f, 1}, {0x061c, 0x061c, 1}, {0x115f, 0x1160, 1}, {0x17b4, 0x17b5, 1},
		{0x180b, 0x180f, 1}, {0x200b, 0x200f, 1}, {0x202a, 0x202e, 1}, {0x2060, 0x206f, 1}, {0x3164, 0x3164, 1},
		{0xfe00, 0xfe0f, 1}, {0xfeff, 0xfeff, 1}, {0xffa0, 0xffa0, 1}, {0xfff0, 0xfffb, 1},
	},
	R32:         []unicode.Range32{{0x1bca0, 0x1bca3, 1}, {0x1d173, 0x1d17a, 1}, {0xe0000, 0xe0fff, 1}},
	LatinOffset: 1,
}

const (
	nonJoiner = '\u200c'
	joiner    = '\u200d'
	asText    = '\ufe0e' // the variation selectors of emoji
	asEmoji   = '\ufe0f'
	nextLine  = '\u0085'
	lineEnd   = '\u2028'
	paragraph = '\u2029'
)

// Line returns a text as one line for a person: without control sequences for terminals and
// hidden characters. Line ends, tabs and spaces of any width become spaces, and a character that has no
// form, such as a private character, becomes U+FFFD.
func Line(text string) string {
	if isPlain(text, false) {
		return text
	}
	return clean(text, nil, func(r rune) rune {
		if r == '\t' || endsLine(r) || unicode.Is(unicode.Zs, r) {
			return ' '
		}
		return drawn(r)
	})
}

// Text is [Line] for a text of several lines: line ends and tabs stay.
func Text(text string) string { return textWith(text, nil) }

// textWith is Text, but for the control sequences that keep returns true for: they stay.
func textWith(text string, keep func(sequence string) bool) string {
	if isPlain(text, true) {
		return text
	}
	return clean(strings.ReplaceAll(text, "\r\n", "\n"), keep, func(r rune) rune {
		switch {
		case r == '\t':
			return r
		case endsLine(r):
			return '\n'
		}
		return drawn(r)
	})
}

// Visible returns the text without control characters other than line ends and tabs, and
// without hidden characters.
func Visible(text string) string {
	if isPlain(text, true) {
		return text
	}
	return each(text, func(r rune) rune {
		if isControl(r) && r != '\t' && r != '\n' && r != '\r' {
			return -1
		}
		return r
	})
}

// isPlain reports whether the text is printable ASCII, with line ends and tabs if they may
// be there.
func isPlain(text string, lines bool) bool {
	for i := range len(text) {
		if c := text[i]; (c < ' ' || c > '~') && !(lines && (c == '\n' || c == '\t')) {
			return false
		}
	}
	return true
}

func endsLine(r rune) bool {
	return r >= '\n' && r <= '\r' || r == nextLine || r == lineEnd || r == paragraph
}

func isControl(r rune) bool { return r < ' ' || r >= 0x7f && r < 0xa0 }

func isIgnorable(r rune) bool { return r >= 0xad && unicode.Is(ignorable, r) }

// drawn returns the character, U+FFFD for one without a form, -1 for a control.
func drawn(r rune) rune {
	switch {
	case isControl(r):
		return -1
	case isIgnorable(r): // which each lets through where it has a meaning
		return r
	case !unicode.IsGraphic(r):
		return unicode.ReplacementChar
	}
	return r
}

// clean removes the control sequences, but for those that keep returns true for, and maps
// the characters of the rest.
func clean(text string, keep func(sequence string) bool, to func(rune) rune) string {
	var b strings.Builder
	for text != "" {
		at := strings.IndexFunc(text, func(r rune) bool { return r == '\x1b' || r >= 0x80 && r < 0xa0 })
		if at < 0 {
			at = len(text)
		}
		b.WriteString(each(text[:at], to))
		text = text[at:]
		n := sequence(text)
		if n > 0 && keep != nil && keep(text[:n]) {
			b.WriteString(text[:n])
		} else if r, size := utf8.DecodeRuneInString(text); n == size && endsLine(r) {
			b.WriteRune(to(r))
		}
		text = text[n:]
	}
	return b.String()
}

// each maps the characters of a text, and drops the hidden ones that have no meaning.
func each(text string, to func(rune) rune) string {
	var b strings.Builder
	b.Grow(len(text))
	var before rune // the character that was written last
	for i, r := range text {
		if isHidden(text, i, before, r) {
			continue
		}
		if r = to(r); r >= 0 {
			b.WriteRune(r)
			before = r
		}
	}
	return b.String()
}

// isHidden reports whether the character r at text[i] is drawn as nothing, and has no meaning there.
func isHidden(text string, i int, before, r rune) bool {
	if !isIgnorable(r) {
		return false
	}
	after, _ := utf8.DecodeRuneInString(text[i+utf8.RuneLen(r):])
	return !hasMeaning(before, r, after)
}

// hasMeaning reports whether an ignorable character changes the look of its neighbours.
func hasMeaning(before, r, after rune) bool {
	switch r {
	case joiner:
		return joins(before) && joins(after) || (isEmoji(before) || before == asEmoji) && isEmoji(after)
	case nonJoiner:
		return joins(before) && joins(after)
	case asText, asEmoji:
		return isEmoji(before) || (before >= '0' && before <= '9' || before == '#' || before == '*') && after == '\u20e3'
	case '\u180b', '\u180c', '\u180d', '\u180e', '\u180f':
		return unicode.Is(unicode.Mongolian, before)
	}
	return false
}

// unjoined are the scripts with letters that no joiner changes: there it only hides something.
var unjoined = []*unicode.RangeTable{
	unicode.Latin, unicode.Greek, unicode.Cyrillic, unicode.Armenian, unicode.Georgian, unicode.Hebrew, unicode.Thai, unicode.Lao,
	unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul, unicode.Bopomofo, unicode.Yi, unicode.Common,
}

func joins(r rune) bool {
	return r >= 0x370 && unicode.In(r, unicode.Letter, unicode.Mark) && !unicode.In(r, unjoined...) && !isIgnorable(r)
}

// isEmoji reports whether the character may be part of an emoji sequence: a symbol, or a
// modifier of the skin's colour.
func isEmoji(r rune) bool {
	switch {
	case r == 0xa9, r == 0xae, r == 0x203c, r == 0x2049, r == 0x3030, r == 0x303d, r == 0x3297, r == 0x3299:
		return true
	}
	return r >= 0x2122 && r <= 0x2bff && unicode.IsSymbol(r) || r >= 0x1f000 && r <= 0x1faff
}

// maxSequence is the length of the longest control string that is removed as a whole; of a
// longer one, or one without an end, only the first characters are.
const maxSequence = 4096

// sequence returns the length of the control sequence (ECMA-48) at the start of a text that
// begins with a control character, in its form of 7 or of 8 bits.
func sequence(text string) int {
	if text == "" {
		return 0
	}
	r, start := utf8.DecodeRuneInString(text)
	if r == '\x1b' {
		if len(text) == 1 || text[1] < ' ' || text[1] > '~' {
			return 1
		}
		r, start = rune(text[1]), 2
	} else {
		r -= 0x40 // the second byte of the form of 7 bits
	}
	rest := text[start:]
	switch {
	case r == '[':
		n := skip(rest, '0', '?')
		n += skip(rest[n:], ' ', '/')
		if skip(rest[n:min(len(rest), n+1)], '@', '~') == 1 {
			return start + n + 1
		}
		return start
	case r == ']' || r == 'P' || r == 'X' || r == '^' || r == '_':
		return start + controlString(rest)
	case r >= ' ' && r <= '/':
		n := skip(rest, ' ', '/')
		return start + n + skip(rest[n:min(len(rest), n+1)], '0', '~')
	}
	return start
}

// controlEnds are the characters at which a control string ends: its end, the beginning of
// another sequence, and the end of the line.
const controlEnds = "\a\x1b\u0090\u0098\u009b\u009c\u009d\u009e\u009f\n"

// controlString returns the length of the text of a control string with its end, 0 if it
// has no end in its line. The time for many of them is linear, since they do not contain each other.
func controlString(text string) int {
	text = text[:min(len(text), maxSequence)]
	at := strings.IndexAny(text, controlEnds)
	switch {
	case at < 0 || text[at] == '\n':
		return 0
	case text[at] == '\a':
		return at + 1
	case strings.HasPrefix(text[at:], "\x1b\\"), strings.HasPrefix(text[at:], "\u009c"):
		return at + 2
	}
	return at // another sequence begins
}

// skip returns how many bytes at the start of the text are in the range.
func skip(text string, from, to rune) int {
	return len(text) - len(strings.TrimLeftFunc(text, func(r rune) bool { return r >= from && r <= to }))
}
