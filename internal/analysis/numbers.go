package analysis

import "strings"

// Numbers returns the words of a text, as [Words] returns them, and whether each is a plural
// there: "issues" is one. A word that occurs in both numbers is left out.
func (s Stemmer) Numbers(text string) map[string]bool {
	numbers, both := make(map[string]bool), make(map[string]bool)
	for _, w := range split(text) {
		stem, plural := s.stem(w), isPlural(w)
		if was, known := numbers[stem]; known && was != plural {
			both[stem] = true
		}
		numbers[stem] = plural
	}
	for stem := range both {
		delete(numbers, stem)
	}
	return numbers
}

// isPlural reports whether an English word in lower case looks like a plural.
func isPlural(word string) bool {
	if len(word) < 3 || !strings.HasSuffix(word, "s") {
		return false
	}
	switch word[len(word)-2] {
	case 's', 'u', 'i', '\'': // address, status, analysis
		return false
	}
	return true
}
