package evaluation

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// An Outcome is the answer of the search to a [Task], and the decision of a route.
type Outcome struct {
	Catalog string `json:"catalog"`
	ID      string `json:"id"`
	Kind    string `json:"kind"`

	Rank       int     `json:"rank"`       // of the best right tool in the answer, 1 for the first; 0 if it is not there
	Confidence float64 `json:"confidence"` // in the first tool
	Next       float64 `json:"next"`       // in the next one
	Refused    bool    `json:"refused"`    // the answer abstains, or is not sure
	Idle       bool    `json:"not_run"`    // a route runs nothing, since it abstains or the confidence is below its threshold
	IdleOrHarm bool    `json:"not_run_or_not_harmless"`

	Answer []string `json:"answer"` // IDs of the tools, best first
}

// A Share is a part of tasks, with the 95 % bootstrap interval that it lies in.
type Share struct {
	Value float64 `json:"share"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
}

// String returns the share and its interval in per cent, such as "40 (31–49)".
func (s Share) String() string {
	return fmt.Sprintf("%.0f (%.0f–%.0f)", 100*s.Value, 100*s.Low, 100*s.High)
}

// An OutcomeSummary is the outcomes of some tasks.
type OutcomeSummary struct {
	Name          string `json:"name"` // of the kind, or of the catalog
	Tasks         int    `json:"tasks"`
	First         Share  `json:"first"`    // a right tool is the first of the answer, refused or not
	InThree       Share  `json:"in_three"` // likewise, among the first three
	InTen         Share  `json:"in_ten"`
	WrongAndSure  Share  `json:"wrong_and_sure"` // the answer is sure, and no right tool is the first
	Refused       Share  `json:"refused"`
	NotRun        Share  `json:"not_run"`
	NotRunOrUnfit Share  `json:"not_run_or_not_harmless"`
}

// A TaskReport is how well the tools for tasks were found.
type TaskReport struct {
	Tools    int              `json:"tools"`
	Kinds    []OutcomeSummary `json:"kinds"` // in the order of the tasks, those without a tool last but one; last [WithTool]
	Catalogs []OutcomeSummary `json:"catalogs"`

	// CalibrationError is the expected calibration error of the confidence in the first tool,
	// over ten bins of equal size.
	CalibrationError float64 `json:"calibration_error"`

	Outcomes []Outcome `json:"-"`
}

// WithTool names all kinds of tasks for which the catalog has a tool.
const WithTool = "all with a tool"

// Summarize returns the report of outcomes.
func Summarize(outcomes []Outcome) TaskReport {
	r := TaskReport{Outcomes: outcomes, CalibrationError: CalibrationError(outcomes)}
	var kinds, catalogs []string
	for _, o := range outcomes {
		if !slices.Contains(kinds, o.Kind) {
			kinds = append(kinds, o.Kind)
		}
		if !slices.Contains(catalogs, o.Catalog) {
			catalogs = append(catalogs, o.Catalog)
		}
	}
	slices.SortStableFunc(kinds, func(a, b string) int { return cmp.Compare(order(a), order(b)) })
	for _, kind := range kinds {
		r.Kinds = append(r.Kinds, summary(kind, outcomes, func(o Outcome) bool { return o.Kind == kind }))
	}
	r.Kinds = append(r.Kinds, summary(WithTool, outcomes, func(o Outcome) bool { return o.Kind != NoTool }))
	for _, catalog := range catalogs {
		r.Catalogs = append(r.Catalogs, summary(catalog, outcomes, func(o Outcome) bool { return o.Catalog == catalog && o.Kind != NoTool }))
	}
	return r
}

// order puts tasks without a tool last.
func order(kind string) int {
	if kind == NoTool {
		return 1
	}
	return 0
}

func summary(name string, outcomes []Outcome, of func(Outcome) bool) OutcomeSummary {
	var mine []Outcome
	for _, o := range outcomes {
		if of(o) {
			mine = append(mine, o)
		}
	}
	return OutcomeSummary{
		Name: name, Tasks: len(mine),
		First:         share(mine, func(o Outcome) bool { return o.Rank == 1 }),
		InThree:       share(mine, func(o Outcome) bool { return o.Rank >= 1 && o.Rank <= 3 }),
		InTen:         share(mine, func(o Outcome) bool { return o.Rank >= 1 && o.Rank <= 10 }),
		WrongAndSure:  share(mine, func(o Outcome) bool { return o.Rank != 1 && !o.Refused }),
		Refused:       share(mine, func(o Outcome) bool { return o.Refused }),
		NotRun:        share(mine, func(o Outcome) bool { return o.Idle }),
		NotRunOrUnfit: share(mine, func(o Outcome) bool { return o.IdleOrHarm }),
	}
}

// bootstraps is how many samples an interval is made of.
const bootstraps = 1000

// share returns the part of the outcomes that are so. The interval is the same for the same
// outcomes always.
func share(outcomes []Outcome, is func(Outcome) bool) (s Share) {
	n := len(outcomes)
	if n == 0 {
		return s
	}
	hits := make([]float64, n)
	for i, o := range outcomes {
		if is(o) {
			hits[i] = 1
			s.Value += 1 / float64(n)
		}
	}
	random := rand.New(rand.NewPCG(1, 2))
	means := make([]float64, bootstraps)
	for i := range means {
		for range n {
			means[i] += hits[random.IntN(n)] / float64(n)
		}
	}
	slices.Sort(means)
	s.Low, s.High = means[bootstraps*25/1000], means[bootstraps*975/1000]
	return s
}

const calibrationBins = 10

// CalibrationError returns the expected calibration error of the confidence in the first tool:
// the mean distance between the confidence and how often the tool is right, over ten bins of
// equal size in the order of the confidence.
func CalibrationError(outcomes []Outcome) (off float64) {
	sorted := slices.Clone(outcomes)
	slices.SortStableFunc(sorted, func(a, b Outcome) int { return cmp.Compare(a.Confidence, b.Confidence) })
	n := len(sorted)
	if n == 0 {
		return 0
	}
	for bin := range calibrationBins {
		sum := 0.0
		for _, o := range sorted[bin*n/calibrationBins : (bin+1)*n/calibrationBins] {
			sum += o.Confidence
			if o.Rank == 1 {
				sum--
			}
		}
		off += math.Abs(sum) / float64(n)
	}
	return off
}
