package rank

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

const (
	maxReasons = 4   // words of the task that are named
	nearEnough = 0.2 // nearness that is worth a word
)

// Why gives in plain words the reasons for the candidate: the words of the task that
// it has and where, and whether it means the same. For example:
//
//	its name has "convert" and "unit", its parameters have "feet"; its meaning is near
//
// It is empty if nothing speaks for it.
func (e Explanation) Why() string {
	var fields []string // in the order of their shares
	words := make(map[string][]string)
	for _, w := range e.Words[:min(len(e.Words), maxReasons)] {
		field := strongest(w.Fields)
		if words[field] == nil {
			fields = append(fields, field)
		}
		words[field] = append(words[field], fmt.Sprintf("%q", w.Word))
	}
	var parts, reasons []string
	for _, field := range fields {
		verb := "has"
		if strings.HasSuffix(field, "s") {
			verb = "have"
		}
		parts = append(parts, fmt.Sprintf("its %s %s %s", field, verb, enumerate(words[field])))
	}
	if len(parts) > 0 {
		reasons = append(reasons, strings.Join(parts, ", "))
	}
	if slices.ContainsFunc(e.Features, func(f FeatureShare) bool {
		return f.Value >= nearEnough && (f.Name == names[MeaningFeature] || f.Name == names[StepMeaningFeature])
	}) {
		reasons = append(reasons, "its meaning is near")
	}
	return strings.Join(reasons, "; ")
}

// strongest returns the field that brings most of a word's score.
func strongest(shares map[string]float64) string {
	names := slices.Sorted(maps.Keys(shares))
	return slices.MaxFunc(append(names, ""), func(a, b string) int { return cmp.Compare(shares[a], shares[b]) })
}

// enumerate joins words as a person does.
func enumerate(words []string) string {
	if last := len(words) - 1; last > 0 {
		return strings.Join(words[:last], ", ") + " and " + words[last]
	}
	return strings.Join(words, "")
}
