// Package prose counts and lists things in sentences for people, and finds the word that a misspelled one was probably
// meant to be.
package prose

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Count returns "1 tool" or "3 tools".
func Count(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}

// Clauses joins the clauses that are not "".
func Clauses(all ...string) string {
	return strings.Join(slices.DeleteFunc(all, func(one string) bool { return one == "" }), "; ")
}

// List joins words, as "a, b and 3 more" if there are more than most.
func List(words []string, most int) string {
	if more := len(words) - most; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(words[:most], ", "), more)
	}
	return strings.Join(words, ", ")
}

// Cut returns at most so many bytes of a text. It ends with "…" if something is left out.
func Cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most-len("…")], "") + "…"
}

// advised matches a message: the mistake, and perhaps the correction after the first "; " that is not in quotes.
const advised = `(?s)^((?:[^";]|;[^ ]|"(?:[^"\\]|\\.)*")*)(?:; (.*))?$`

// Advice splits a message into the mistake and the correction; "" without one. A quoted word in the mistake may be a stranger's.
func Advice(message string) (mistake, correction string) {
	if m := regexp.MustCompile(advised).FindStringSubmatch(message); m != nil {
		return m[1], m[2]
	}
	mistake, correction, _ = strings.Cut(message, "; ") // it has one quote alone
	return mistake, correction
}
