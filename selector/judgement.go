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
	isLikelier := len(r.Candidates) < 2 || r.Candidates[1].Confidence <= rank.LikelyToo*first.Confidence
	r.Sure = !r.Abstained && !byWords && first.Confidence >= threshold && isLikelier
	return r
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
