// Package taglist compares lists of capability tags.
package taglist

import (
	"slices"
	"strings"
)

const Max = 200 // names in each list of a search

// Clean returns capability tags as tools have them: trimmed, in lower case, sorted, each
// once, without empty ones.
func Clean(tags []string) []string {
	clean := make([]string, 0, len(tags))
	for _, tag := range tags {
		if tag = strings.ToLower(strings.TrimSpace(tag)); tag != "" {
			clean = append(clean, tag)
		}
	}
	slices.Sort(clean)
	return slices.Compact(clean)
}

// Count returns how many of the wanted tags are among the tags of a tool. Both are clean.
func Count(tool, wanted []string) (n int) {
	for _, tag := range wanted {
		if slices.Contains(tool, tag) {
			n++
		}
	}
	return n
}
