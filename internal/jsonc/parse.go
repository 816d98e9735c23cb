// Package jsonc reads JSON with comments and trailing commas, of files that anyone may have written.
// It is a leaf.
package jsonc

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/tailscale/hujson"
)

const (
	maxDepth  = 1000    // brackets that may be open at the same place, since the parser recurses
	maxValues = 200_000 // members and elements, since each takes some hundred bytes once it is parsed
)

// An Error is a mistake in a text, with its place and its correction. It shows no part of a string of the text,
// which may be a secret.
type Error struct {
	Offset    int
	What, Fix string
}

func (e *Error) Error() string { return e.What + "; " + e.Fix }

// Parse parses a text.
func Parse(data []byte) (hujson.Value, *Error) {
	switch at, depth, values := measure(data); {
	case depth > maxDepth:
		return hujson.Value{}, &Error{at, fmt.Sprintf("more than %d brackets are open here", maxDepth), "write fewer"}
	case values > maxValues:
		return hujson.Value{}, &Error{at, fmt.Sprintf("the file has more than %d keys and values up to here", maxValues), "write fewer"}
	}
	// The parser demands a newline after a comment at the very end.
	value, err := hujson.Parse(append(slices.Clip(data), '\n'))
	if err != nil {
		return value, syntaxError(data, err)
	}
	return value, nil
}

// measure counts the open brackets and the values of a text without building anything. It
// stops at the place where one of them is above its limit.
func measure(data []byte) (at, depth, values int) {
	for at = 0; at < len(data) && depth <= maxDepth && values <= maxValues; at++ {
		switch c := data[at]; {
		case c == '{' || c == '[':
			depth++
			values++
		case c == '}' || c == ']':
			depth--
		case c == ',':
			values++
		case c == '"':
			at = afterString(data, at)
		case c == '/' && at+1 < len(data):
			at = afterComment(data, at)
		}
	}
	return at - 1, depth, values
}

// afterString returns the place of the quote that ends the string at a place.
func afterString(data []byte, at int) int {
	for at++; at < len(data) && data[at] != '"'; at++ {
		if data[at] == '\\' {
			at++
		}
	}
	return at
}

// afterComment returns the place of the last byte of the comment at a place.
func afterComment(data []byte, at int) int {
	end := "\n"
	switch data[at+1] {
	case '/':
	case '*':
		end = "*/"
	default:
		return at // a mistake
	}
	n := bytes.Index(data[at+2:], []byte(end))
	if n < 0 {
		return len(data)
	}
	return at + 2 + n + len(end) - 1
}

// syntaxError returns the parser's error with its place, which the parser has only as text,
// and with a correction. The literal that the parser quotes is dropped: it may be a secret.
func syntaxError(data []byte, err error) *Error {
	var line, column int
	message := err.Error()
	if n, _ := fmt.Sscanf(message, "hujson: line %d, column %d:", &line, &column); n == 2 {
		message = strings.SplitN(message, ": ", 3)[2]
	}
	if literal := "invalid literal"; strings.HasPrefix(message, literal) {
		message = literal
	}
	offset := LineStart(data, line-1) + max(column-1, 0)
	return &Error{offset, message, advice(data, offset)}
}

// LineStart returns where a line begins, counted from 0; the end if there are not so many.
func LineStart(data []byte, line int) (at int) {
	for text := range bytes.Lines(data) {
		if line--; line < 0 {
			break
		}
		at += len(text)
	}
	return at
}

func advice(data []byte, offset int) string {
	if offset >= len(data) {
		return "close every quote, bracket and brace"
	}
	switch data[offset] {
	case 0:
		return "save the file as UTF-8"
	case '\'', '`':
		return "write double quotes"
	case '=':
		return "write a colon between a key and its value"
	case '"', '{', '[':
		return "is a comma missing before it, or a backslash not doubled?"
	case '}', ']', ',', ':':
		return "is a value missing before it, or a bracket closed twice?"
	case '/':
		return "write comments as // … or /* … */"
	default:
		return "write keys and strings in double quotes"
	}
}
