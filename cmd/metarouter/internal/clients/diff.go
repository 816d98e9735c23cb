package clients

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// context is how many unchanged lines a diff shows around a change.
const context = 3

// Diff says in the unified format what makes new of old, with whatever may be a secret
// hidden; "" if nothing does. Values that differ only where they are hidden are shown as
// changed all the same.
func Diff(path string, old, new []byte) string { return diff(path, old, new, masked) }

// TextDiff is Diff for a text that is no configuration: nothing is hidden.
func TextDiff(path string, old, new []byte) string {
	return diff(path, old, new, func(_ string, data []byte, _, to int) []string {
		return append(lines(data), make([]string, to)...) // at least to lines, as masked
	})
}

// diff is Diff with the lines that show returns for those of a file, as masked does.
func diff(path string, old, new []byte, show func(path string, data []byte, from, to int) []string) string {
	if bytes.Equal(old, new) {
		return ""
	}
	a, b := lines(old), lines(new)
	script := edits(a, b)
	changed := func(e edit) bool { return e.mark != ' ' }
	near := func(at int) bool {
		return slices.ContainsFunc(script[max(0, at-context):min(len(script), at+context+1)], changed)
	}
	// Of a large file, only what is shown is masked.
	from := max(0, slices.IndexFunc(script, changed)-context)
	to := len(script)
	for to > from && !near(to-1) {
		to--
	}
	var out strings.Builder
	fmt.Fprintf(&out, "--- %s\n+++ %s\n", path, path)
	if to == from { // only the ends of lines have changed
		return out.String()
	}
	shownA := show(path, old, script[from].a, script[to-1].a+1)
	shownB := show(path, new, script[from].b, script[to-1].b+1)
	for at := from; at < to; {
		if !near(at) {
			at++
			continue
		}
		end, fromA, fromB := at, 0, 0
		for ; end < to && near(end); end++ {
			if script[end].mark != '+' {
				fromA++
			}
			if script[end].mark != '-' {
				fromB++
			}
		}
		fmt.Fprintf(&out, "@@ -%s +%s @@\n", span(script[at].a, fromA), span(script[at].b, fromB))
		for _, e := range script[at:end] {
			switch e.mark {
			case '+':
				fmt.Fprintf(&out, "+%s\n", short(shownB[e.b], shownA[max(e.a-1, 0)]))
			case '-':
				fmt.Fprintf(&out, "-%s\n", short(shownA[e.a], shownB[e.b]))
			default:
				fmt.Fprintf(&out, " %s\n", short(shownA[e.a], ""))
			}
		}
		at = end
	}
	return out.String()
}

// An edit is a line that stays, goes ('-') or comes ('+'), and where in both files that
// is.
type edit struct {
	mark rune
	a, b int
}

// edits makes b of a. What is alike at both ends is most of it.
func edits(a, b []string) (script []edit) {
	start := 0
	for ; start < len(a) && start < len(b) && a[start] == b[start]; start++ {
		script = append(script, edit{' ', start, start})
	}
	end := 0 // how many lines from there are alike
	for end < min(len(a), len(b))-start && a[len(a)-1-end] == b[len(b)-1-end] {
		end++
	}
	kept := longestCommon(a[start:len(a)-end], b[start:len(b)-end])
	for n := end; n > 0; n-- {
		kept = append(kept, [2]int{len(a) - start - n, len(b) - start - n})
	}
	i, j := start, start
	for _, k := range append(kept, [2]int{len(a) - start, len(b) - start}) {
		for ; i < start+k[0]; i++ {
			script = append(script, edit{'-', i, j})
		}
		for ; j < start+k[1]; j++ {
			script = append(script, edit{'+', i, j})
		}
		if i < len(a) {
			script = append(script, edit{' ', i, j})
		}
		i, j = i+1, j+1
	}
	return script
}

// span is a stretch of lines as the unified format writes it.
func span(from, count int) string {
	if count == 0 {
		return fmt.Sprintf("%d,0", from)
	}
	return fmt.Sprintf("%d,%d", from+1, count)
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

// longestCommon returns the places in a and b of the lines of a longest common
// subsequence, none where that would take too long to find.
func longestCommon(a, b []string) [][2]int {
	const most = 4 << 20
	if len(a) == 0 || len(b) == 0 || len(a) > most/len(b) {
		return nil
	}
	width := len(b) + 1
	length := make([]int32, (len(a)+1)*width) // of what follows
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				length[i*width+j] = length[(i+1)*width+j+1] + 1
			} else {
				length[i*width+j] = max(length[(i+1)*width+j], length[i*width+j+1])
			}
		}
	}
	var kept [][2]int
	for i, j := 0, 0; i < len(a) && j < len(b); {
		switch {
		case a[i] == b[j]:
			kept = append(kept, [2]int{i, j})
			i, j = i+1, j+1
		case length[(i+1)*width+j] >= length[i*width+j+1]:
			i++
		default:
			j++
		}
	}
	return kept
}
