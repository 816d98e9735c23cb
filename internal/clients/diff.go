package clients

import (
	"bytes"
	"fmt"
	"strings"
)

// context is how many unchanged lines a diff shows around a change.
const context = 3

// Diff says in the unified format what makes new of old, with whatever may be a secret
// hidden; "" if nothing does. Values that differ only where they are hidden are shown as
// changed all the same.
func Diff(path string, old, new []byte) string {
	if bytes.Equal(old, new) {
		return ""
	}
	a, b := lines(old), lines(new)
	shownA, shownB := lines(masked(path, old)), lines(masked(path, new))
	if len(shownA) != len(a) || len(shownB) != len(b) {
		shownA, shownB = make([]string, len(a)), make([]string, len(b)) // not to be had: show nothing of it
	}
	// What is alike at both ends is most of it.
	start := 0
	for start < len(a) && start < len(b) && a[start] == b[start] {
		start++
	}
	endA, endB := len(a), len(b)
	for endA > start && endB > start && a[endA-1] == b[endB-1] {
		endA, endB = endA-1, endB-1
	}
	kept := longestCommon(a[start:endA], b[start:endB])

	var out strings.Builder
	fmt.Fprintf(&out, "--- %s\n+++ %s\n", path, path)
	type line struct {
		mark byte
		text string
		a, b int
	}
	var script []line
	i, j := 0, 0
	for _, k := range append(kept, [2]int{endA - start, endB - start}) {
		if i == 0 && j == 0 {
			for n := max(0, start-context); n < start; n++ {
				script = append(script, line{' ', shownA[n], n, n})
			}
		}
		for ; i < k[0]; i++ {
			script = append(script, line{'-', shownA[start+i], start + i, start + j})
		}
		for ; j < k[1]; j++ {
			script = append(script, line{'+', shownB[start+j], start + i, start + j})
		}
		if k[0] < endA-start {
			script = append(script, line{' ', shownA[start+i], start + i, start + j})
			i, j = i+1, j+1
		}
	}
	for n := 0; n < context && endA+n < len(a); n++ {
		script = append(script, line{' ', shownA[endA+n], endA + n, endB + n})
	}
	near := func(at int) bool {
		for n := max(0, at-context); n <= min(len(script)-1, at+context); n++ {
			if script[n].mark != ' ' {
				return true
			}
		}
		return false
	}
	for at := 0; at < len(script); {
		if !near(at) {
			at++
			continue
		}
		end, fromA, fromB := at, 0, 0
		for ; end < len(script) && near(end); end++ {
			if script[end].mark != '+' {
				fromA++
			}
			if script[end].mark != '-' {
				fromB++
			}
		}
		fmt.Fprintf(&out, "@@ -%s +%s @@\n", span(script[at].a, fromA), span(script[at].b, fromB))
		for _, l := range script[at:end] {
			out.WriteByte(l.mark)
			out.WriteString(short(l.text) + "\n")
		}
		at = end
	}
	return out.String()
}

// span is a stretch of lines as the unified format writes it.
func span(from, count int) string {
	if count == 0 {
		return fmt.Sprintf("%d,0", from)
	}
	return fmt.Sprintf("%d,%d", from+1, count)
}

// short cuts a line that fills the screen, as in a file of one line.
func short(line string) string {
	if runes := []rune(line); len(runes) > 400 {
		return string(runes[:400]) + "…"
	}
	return line
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
