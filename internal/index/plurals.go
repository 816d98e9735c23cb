package index

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

// setNumbers sets Plurals and Singulars. Words of a name beyond the 16th are left out.
func (d *Document) setNumbers(name string, stems Stemmer) {
	numbers := stems.Numbers(name)
	k := 0
	for i := range d.Terms {
		if d.Terms[i].Count[NameField] == 0 {
			continue
		}
		if plural, known := numbers[d.Terms[i].Word]; known && k < 16 {
			if plural {
				d.Plurals |= 1 << k
			} else {
				d.Singulars |= 1 << k
			}
		}
		k++
	}
}
