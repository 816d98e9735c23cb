package prose

import "strings"

// Nearest returns the one of the words that was probably meant by a misspelled word.
func Nearest(word string, words []string) (string, bool) {
	best, distance := "", 3
	for _, w := range words {
		most := 2 // edits that count as a misspelling
		if min(len(word), len(w)) <= 5 {
			most = 1
		}
		if n := edits(word, w); n < distance && n <= most {
			best, distance = w, n
		}
	}
	return best, best != ""
}

// Similar reports whether a word is probably a misspelled other one.
func Similar(word, other string) bool {
	_, ok := Nearest(word, []string{other})
	return ok
}

// edits counts the insertions, deletions, replacements and swaps of neighbours between a and b in
// lower case (optimal string alignment). Words of very different lengths cost nothing.
func edits(a, b string) int {
	if diff := len(a) - len(b); diff > 5 || diff < -5 { // a letter in lower case may be a byte longer
		return 3 // a different word
	}
	if a, b = strings.ToLower(a), strings.ToLower(b); max(len(a), len(b))-min(len(a), len(b)) > 2 {
		return 3
	}
	var small [3][32]int // without memory for the words of most files
	rows := [3][]int{small[0][:], small[1][:], small[2][:]}
	if len(b) >= len(small[0]) {
		rows = [3][]int{make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)}
	}
	for i := range len(a) + 1 {
		row, above, before := rows[i%3], rows[(i+2)%3], rows[(i+1)%3]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			if i == 0 {
				row[j] = j
				continue
			}
			replaced := above[j-1]
			if a[i-1] != b[j-1] {
				replaced++
			}
			row[j] = min(replaced, above[j]+1, row[j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
	}
	return rows[len(a)%3][len(b)]
}
