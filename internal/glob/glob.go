// Package glob matches names against patterns.
//
// A pattern has the syntax of [path.Match]: * is any number of characters, ? is one, [a-z] and
// [^a-z] are one of a class, and a backslash takes the meaning from the next character. Names are
// not paths: *, ? and classes match a slash too. A match takes at most as many steps as the
// lengths of pattern and name multiplied.
package glob

import (
	"errors"
	"path"
	"strings"
	"unicode/utf8"
)

// MaxLength is the most bytes of a pattern.
const MaxLength = 1024

// ErrTooLong says that a pattern is longer than MaxLength.
var ErrTooLong = errors.New("pattern is too long")

// A Pattern is a parsed pattern. It is immutable. The zero value matches the empty name.
type Pattern struct {
	text   string
	prefix string  // the characters before the first one with a meaning
	rest   []token // the tokens after it
	isID   bool    // it has a colon
	isURI  bool    // it has "://"
}

// A token is a star, or matches one character.
type token struct {
	star    bool
	negated bool
	ranges  []span // of a character; negated without a span, it is any character
}

type span struct{ low, high rune }

// Parse parses a pattern. The error is [path.ErrBadPattern] or [ErrTooLong].
func Parse(text string) (Pattern, error) {
	if len(text) > MaxLength {
		return Pattern{}, ErrTooLong
	}
	p := Pattern{text: text, isID: strings.Contains(text, ":"), isURI: strings.Contains(text, "://")}
	var literal strings.Builder
	for at := text; at != ""; {
		t, after, err := next(at)
		if err != nil {
			return Pattern{}, err
		}
		if len(p.rest) == 0 && !t.negated && len(t.ranges) == 1 && t.ranges[0].low == t.ranges[0].high {
			literal.WriteRune(t.ranges[0].low)
		} else {
			p.rest = append(p.rest, t)
		}
		at = after
	}
	p.prefix = literal.String()
	return p, nil
}

// Match reports whether the whole name matches a pattern. A bad pattern matches nothing.
func Match(text, name string) bool {
	p, err := Parse(text)
	return err == nil && p.Match(name)
}

// next returns the token at the beginning of a pattern, and the rest of the pattern.
func next(at string) (t token, after string, err error) {
	switch at[0] {
	case '*':
		return token{star: true}, at[1:], nil
	case '?':
		return token{negated: true}, at[1:], nil
	case '[':
		return class(at[1:])
	}
	r, after, err := character(at)
	return token{ranges: []span{{r, r}}}, after, err
}

// class returns the token of a class, and the text after its bracket.
func class(at string) (t token, after string, err error) {
	at, t.negated = strings.CutPrefix(at, "^")
	for len(t.ranges) == 0 || !strings.HasPrefix(at, "]") {
		var s span
		if s.low, at, err = classCharacter(at); err != nil {
			return t, "", err
		}
		s.high = s.low
		if rest, isRange := strings.CutPrefix(at, "-"); isRange {
			if s.high, at, err = classCharacter(rest); err != nil {
				return t, "", err
			}
		}
		t.ranges = append(t.ranges, s)
	}
	return t, at[1:], nil
}

func classCharacter(at string) (r rune, after string, err error) {
	if at == "" || at[0] == '-' || at[0] == ']' {
		return 0, "", path.ErrBadPattern
	}
	return character(at)
}

// character returns the character, perhaps after a backslash, at the beginning of a pattern.
func character(at string) (r rune, after string, err error) {
	at = strings.TrimPrefix(at, `\`)
	r, n := utf8.DecodeRuneInString(at)
	if r == utf8.RuneError && n <= 1 {
		return 0, "", path.ErrBadPattern
	}
	return r, at[n:], nil
}

func (t token) matches(r rune) bool {
	for _, s := range t.ranges {
		if s.low <= r && r <= s.high {
			return !t.negated
		}
	}
	return t.negated
}

// String returns the pattern as it was parsed.
func (p Pattern) String() string { return p.text }

// IsName reports whether the pattern matches one name only.
func (p Pattern) IsName() bool { return len(p.rest) == 0 }

// Match reports whether the whole name matches.
func (p Pattern) Match(name string) bool {
	name, ok := strings.CutPrefix(name, p.prefix)
	if !ok {
		return false
	}
	// If a character does not match, the last star takes one more character. An earlier
	// star need not be tried again: the last one can take all that the earlier one could.
	at, again, taken := 0, -1, "" // again: the token after the last star; taken: the name from where it is tried
	for name != "" || at < len(p.rest) {
		if at < len(p.rest) && p.rest[at].star {
			at++
			again, taken = at, name
			continue
		}
		r, n := utf8.DecodeRuneInString(name)
		if n > 0 && at < len(p.rest) && p.rest[at].matches(r) {
			at, name = at+1, name[n:]
			continue
		}
		if again < 0 || taken == "" {
			return false
		}
		_, n = utf8.DecodeRuneInString(taken)
		taken = taken[n:]
		at, name = again, taken
	}
	return true
}
