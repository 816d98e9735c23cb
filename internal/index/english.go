package index

import (
	_ "embed"
	"slices"
	"strings"
	"sync"
)

// englishText has the stems of English words and of common names, sorted, a line each.
//
//go:embed english.txt
var englishText string

// englishStems are the lines of englishText: a map of them would take 2 MB, and these take 0.6.
var englishStems = sync.OnceValue(func() []string { return strings.Fields(englishText) })

// isEnglish reports whether a stem is of an English word.
func isEnglish(stem string) bool {
	_, ok := slices.BinarySearch(englishStems(), stem)
	return ok
}
