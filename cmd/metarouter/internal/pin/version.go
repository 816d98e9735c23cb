package pin

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
)

// taken returns the version that npx takes of those that 'npm view SPEC version dist-tags
// --json' prints: the one with the tag latest, else the highest. It is "" without a version.
func taken(printed []byte) string {
	type found struct {
		Version string
		Tags    struct{ Latest string } `json:"dist-tags"`
	}
	var all []found // of a tag or a single version, one object is printed instead
	if json.Unmarshal(printed, &all) != nil {
		var one found
		if json.Unmarshal(printed, &one) != nil {
			return ""
		}
		all = []found{one}
	}
	highest := ""
	for _, f := range all {
		switch {
		case !npmVersion().MatchString(f.Version):
		case f.Version == f.Tags.Latest:
			return f.Version
		case highest == "" || compare(f.Version, highest) > 0:
			highest = f.Version
		}
	}
	return highest
}

// compare orders versions of npm. A prerelease is below every release.
func compare(a, b string) int {
	a, _, _ = strings.Cut(a, "+")
	b, _, _ = strings.Cut(b, "+")
	a, early, isEarly := strings.Cut(a, "-")
	b, early2, isEarly2 := strings.Cut(b, "-")
	switch {
	case isEarly && !isEarly2:
		return -1
	case isEarly2 && !isEarly:
		return 1
	}
	return cmp.Or(compareParts(a, b), compareParts(early, early2))
}

// compareParts orders what dots separate: numbers by value, and below words.
func compareParts(a, b string) int {
	number := func(part string) bool { return strings.Trim(part, "0123456789") == "" }
	return slices.CompareFunc(strings.Split(a, "."), strings.Split(b, "."), func(a, b string) int {
		switch {
		case number(a) && number(b):
			return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) // none begins with 0
		case number(a):
			return -1
		case number(b):
			return 1
		}
		return cmp.Compare(a, b)
	})
}
