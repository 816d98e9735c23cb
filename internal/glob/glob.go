// Package glob matches names against patterns.
//
// A pattern has the syntax of [path.Match]: * is any number of characters, ? is one, [a-z] and
// [^a-z] are one of a class, and a backslash takes the meaning from the next character. Names are
// not paths: *, ? and classes match a slash too; only in ranges such as [!-~] it has no place. A match
// takes at most as many steps as the lengths of pattern and name multiplied.
package glob

import (
	"errors"
	"path"
	"strings"
)

// MaxLength is the most bytes of a pattern.
const MaxLength = 1024

// ErrTooLong says that a pattern is longer than MaxLength.
var ErrTooLong = errors.New("pattern is too long")

// A Pattern is a parsed pattern. It is immutable. The zero value matches the empty name.
type Pattern struct {
	text   string
	flat   string // text without slashes
	isName bool   // no character has a meaning
	isID   bool   // it has a colon
	isURI  bool   // it has "://"
}

// withoutSlash replaces slashes, at which [path.Match] stops, by a control character, which no name has.
func withoutSlash(text string) string { return strings.ReplaceAll(text, "/", "\x7f") }

// literals removes the characters that a backslash takes the meaning from.
var literals = strings.NewReplacer(`\\`, "", `\*`, "", `\?`, "", `\[`, "")

// Parse parses a pattern. The error is [path.ErrBadPattern] or [ErrTooLong].
func Parse(text string) (Pattern, error) {
	if len(text) > MaxLength {
		return Pattern{}, ErrTooLong
	}
	flat := withoutSlash(text)
	if _, err := path.Match(flat, ""); err != nil {
		return Pattern{}, err
	}
	return Pattern{
		text: text, flat: flat, isName: !strings.ContainsAny(literals.Replace(text), "*?["),
		isID: strings.Contains(text, ":"), isURI: strings.Contains(text, "://"),
	}, nil
}

// String returns the pattern as it was parsed.
func (p Pattern) String() string { return p.text }

// IsName reports whether the pattern matches one name only.
func (p Pattern) IsName() bool { return p.isName }

// Match reports whether the whole name matches.
func (p Pattern) Match(name string) bool {
	matches, _ := path.Match(p.flat, withoutSlash(name)) // Parse has checked the pattern
	return matches
}
