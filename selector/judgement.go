package selector

import (
	"github.com/mcp-metarouter/metarouter/internal/taglist"
	"github.com/mcp-metarouter/metarouter/selector/internal/rank"
)

// judge says whether the ranking answers the query. This follows from the confidences in the
// first two candidates alone, so that an answer never contradicts the confidences that it shows.
// Where a query has no task, the tools with its capabilities are a sure answer.
func judge(r Ranking, q Query, hasTask bool, threshold float64) Ranking {
	first := Candidate{}
	if len(r.Candidates) > 0 {
		first = r.Candidates[0]
	}
	if !hasTask {
		r.Sure = first.Tool != nil && taglist.Count(first.Tool.Capabilities, taglist.Clean(q.Capabilities)) > 0
		r.Abstained = !r.Sure
		return r
	}
	byWords := r.By == ByWords && first.Confidence > 0 // without vectors, confidences are too low: nothing is sure, nor is it out of the question
	r.Abstained = first.Confidence < rank.AbstainBelow && !byWords
	r.Sure = !r.Abstained && !byWords && sure(r.Candidates, threshold)
	return r
}

// sure reports whether the confidence in the first candidate reaches the threshold, and the next one
// is less likely.
func sure(ranked []Candidate, threshold float64) bool {
	if len(ranked) == 0 || ranked[0].Confidence < threshold {
		return false
	}
	return len(ranked) == 1 || ranked[1].Confidence <= rank.LikelyToo*ranked[0].Confidence
}

// threshold returns the confidence from which an answer is sure.
func (s *Selector) threshold() float64 {
	if s.findThreshold != nil {
		if set := s.findThreshold(); set > 0 {
			return set
		}
	}
	return DefaultFindThreshold
}
