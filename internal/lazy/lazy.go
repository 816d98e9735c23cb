// Package lazy makes values of packages when they are first used. Every process of this program
// initialises every package, most of which it never uses. It is a leaf.
package lazy

import (
	"regexp"
	"strings"
	"sync"
)

// Regexp returns a function that compiles the expression at its first call. That call panics if
// the expression is wrong.
func Regexp(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}

// Words returns a function for the set of the words in a list, which are separated by spaces or
// line ends. The set must not be modified.
func Words(list string) func() map[string]bool {
	return sync.OnceValue(func() map[string]bool {
		set := make(map[string]bool)
		for word := range strings.FieldsSeq(list) {
			set[word] = true
		}
		return set
	})
}
