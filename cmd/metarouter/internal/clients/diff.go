package clients

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/mcp-metarouter/metarouter/internal/lazy"
)

// Diff returns the difference of two texts in the unified format, with everything that may be a
// secret hidden; "" if they are equal. Values that differ only where they are hidden are shown as
// changed all the same.
func Diff(path string, old, new []byte) string { return shownDiff(path, old, new, masked) }

// TextDiff is Diff for a text that is no configuration: nothing is hidden.
func TextDiff(path string, old, new []byte) string {
	return shownDiff(path, old, new, func(_ string, data []byte, _, to int) []string {
		return append(lines(data), make([]string, to)...) // at least to lines, as masked
	})
}

// hunk matches the first line of a hunk: where it begins in both files, and how many lines of them it has.
var hunk = lazy.Regexp(`(?m)^@@ -(\d+),(\d+) \+(\d+),(\d+) @@$`)

// shownDiff is Diff with the lines of a file as show returns them; masked is such a function.
func shownDiff(path string, old, new []byte, show func(path string, data []byte, from, to int) []string) string {
	if bytes.Equal(old, new) {
		return ""
	}
	header := fmt.Sprintf("--- %s\n+++ %s\n", path, path)
	script := string(diff.Diff("", ended(old), "", ended(new)))
	hunks := hunk().FindAllStringSubmatch(script, -1)
	if hunks == nil { // only the ends of lines have changed
		return header
	}
	// Of a large file, only the lines that are shown are masked.
	first, last := spanOf(hunks[0]), spanOf(hunks[len(hunks)-1])
	shownA := show(path, old, first.a, last.a+last.countA+1)
	shownB := show(path, new, first.b, last.b+last.countB+1)
	var out strings.Builder
	out.WriteString(header)
	var at span
	for line := range strings.Lines(script[hunk().FindStringIndex(script)[0]:]) {
		switch line[0] {
		case '@':
			at = spanOf(hunk().FindStringSubmatch(line))
			out.WriteString(line)
		case '+':
			fmt.Fprintf(&out, "+%s\n", short(shownB[at.b], shownA[max(at.a-1, 0)]))
			at.b++
		case '-':
			fmt.Fprintf(&out, "-%s\n", short(shownA[at.a], shownB[at.b]))
			at.a++
		default:
			fmt.Fprintf(&out, " %s\n", short(shownA[at.a], ""))
			at.a, at.b = at.a+1, at.b+1
		}
	}
	return out.String()
}

// A span is the lines of a hunk in both files: the first one, counted from 0, and their number.
type span struct{ a, countA, b, countB int }

func spanOf(hunk []string) (s span) {
	fmt.Sscan(strings.Join(hunk[1:], " "), &s.a, &s.countA, &s.b, &s.countB)
	s.a, s.b = s.a-min(s.countA, 1), s.b-min(s.countB, 1) // a hunk without lines of a file has the number of the line before
	return s
}

// ended returns the lines of a file, each with its end.
func ended(data []byte) (text []byte) {
	for _, line := range lines(data) {
		text = append(append(text, line...), '\n')
	}
	return text
}

// short cuts a line that fills the screen, as in a file of one line, to where it begins
// to differ from the line that it replaces or is replaced by.
func short(line, other string) string {
	const most, before = 400, 40
	text, theirs := []rune(line), []rune(other)
	if len(text) <= most {
		return line
	}
	alike := 0
	for alike < min(len(text), len(theirs)) && text[alike] == theirs[alike] {
		alike++
	}
	from, start, end := max(0, alike-before), "", ""
	if from >= len(text) {
		from = 0
	}
	if from > 0 {
		start = "…"
	}
	if from+most < len(text) {
		end = "…"
	}
	return start + string(text[from:min(len(text), from+most)]) + end
}

func lines(data []byte) []string {
	text := strings.TrimSuffix(strings.ReplaceAll(string(bytes.TrimPrefix(data, bom)), "\r\n", "\n"), "\n")
	if text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}
