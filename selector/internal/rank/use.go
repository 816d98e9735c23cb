package rank

// Several votes of a client, or of several clients, for a tool and these very words
// decide, whatever the words themselves say. Evidence from tasks that are only alike stays
// below; see package usage.
const decisive = 0.45

// ByUse reports whether calls after this task decided that the candidate comes first.
func ByUse(features [NumFeatures]float64) bool { return features[UseFeature] >= decisive }

// putUsedFirst raises the score of the candidate with the most decisive evidence from use
// above all others. The feature is raised, so that the score stays the sum of its parts.
func putUsedFirst(scored []Candidate) {
	used, top := -1, 0.0
	for i, c := range scored {
		use := c.Features[UseFeature]
		if ByUse(c.Features) && (used < 0 || use > scored[used].Features[UseFeature]) {
			used = i
		}
	}
	if used < 0 {
		return
	}
	for i, c := range scored {
		if i != used {
			top = max(top, c.Score)
		}
	}
	u := &scored[used]
	if missing := top*lead - u.Score; missing > 0 {
		u.Features[UseFeature] += missing / u.by.weights[UseFeature]
		u.Score = top * lead
	}
}

// lead is by how much the score of a candidate that use has put first is above the next.
const lead = 1.05

// trustUse raises the confidence in candidates that were called after such tasks: that use
// is wrong about them is independent of whether the words are. use holds the evidence by ID.
func trustUse(ranked []Candidate, use map[string]float64) {
	for i := range ranked {
		c := &ranked[i]
		if c.Tool == nil {
			continue
		}
		if x := use[c.Tool.ID]; x > 0 {
			c.Confidence = 1 - (1-c.Confidence)*(1-min(x, mostTrust))
		}
		if i > 0 {
			c.Confidence = min(c.Confidence, ranked[i-1].Confidence)
		}
	}
}

// mostTrust bounds the confidence that use alone gives.
const mostTrust = 0.9
