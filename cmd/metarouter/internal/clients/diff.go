package clients

import (
	"bytes"
	"hash/maphash"
	"strconv"
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
	return shownDiff(path, old, new, func(_ string, data []byte, _, _ int) []string { return lines(data) })
}

// context is how many lines around a change are shown, and may be masked.
const context = 3

// changed returns the lines of two texts between those that are equal at their beginning and at their end, from from to toA and toB, with
// context.
func changed(a, b []string) (from, toA, toB int) {
	for from < min(len(a), len(b)) && a[from] == b[from] {
		from++
	}
	for toA, toB = len(a), len(b); toA > from && toB > from && a[toA-1] == b[toB-1]; toA, toB = toA-1, toB-1 {
	}
	return max(from-context, 0), min(toA+context, len(a)), min(toB+context, len(b))
}

// maxLine is how many characters of a line are shown.
const maxLine = 400

// shownDiff is Diff with the lines of a file as show returns them, at least those from from to to; masked is such a function.
func shownDiff(path string, old, new []byte, show func(path string, data []byte, from, to int) []string) string {
	if bytes.Equal(old, new) {
		return ""
	}
	from, toA, toB := changed(lines(old), lines(new))
	script := string(diff.Diff(path, ended(show(path, old, from, toA)), path, ended(show(path, new, from, toB))))
	_, hunks, _ := strings.Cut(script, "\n+++ "+path+"\n")
	var out strings.Builder
	out.WriteString("--- " + path + "\n+++ " + path + "\n")
	for line := range strings.Lines(marks().ReplaceAllString(hunks, "")) {
		if shown := []rune(line); len(shown) > maxLine+2 {
			line = string(shown[:maxLine]) + "…\n"
		}
		out.WriteString(line)
	}
	return out.String()
}

// ended returns lines as a text, each with its end.
func ended(lines []string) (text []byte) {
	for _, line := range lines {
		text = append(append(text, line...), '\n')
	}
	return text
}

func lines(data []byte) []string {
	text := strings.TrimSuffix(strings.ReplaceAll(string(bytes.TrimPrefix(data, bom)), "\r\n", "\n"), "\n")
	if text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}

// Hidden values differ by a mark behind them, which is taken out of what is shown.
var (
	marks = lazy.Regexp("\u2063[0-9a-z]+\u2063")
	seed  = maphash.MakeSeed()
)

// mark returns the mark of a hidden value.
func mark(value string) string {
	return "\u2063" + strconv.FormatUint(maphash.String(seed, value), 36) + "\u2063"
}
