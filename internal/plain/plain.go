// Package plain makes text of servers safe to print.
package plain

import (
	"regexp"
	"strings"
	"sync"
	"unicode"
)

// escapes matches the control sequences that set a terminal's colours, title and
// cursor.
var escapes = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile("\x1b\\[[0-9;?]*[ -/]*[@-~]|\x1b\\][^\x07\x1b]*(?:\x07|\x1b\\\\)?|\x1b[@-Z\\\\^_]")
})

// Line returns the visible characters of a line, without control sequences for
// terminals. Tabs and spaces of any width become spaces.
func Line(line string) string {
	if strings.ContainsRune(line, '\x1b') {
		line = escapes().ReplaceAllString(line, "")
	}
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\t', unicode.Is(unicode.Zs, r):
			return ' '
		case !unicode.IsPrint(r):
			return -1
		}
		return r
	}, line)
}
