package rank

// Complete says for which tools the arguments that were given are all that they require. The
// zero value is for a task without arguments.
type Complete struct {
	Tools map[string]bool // by ID
	Given int             // how many arguments there are that some tool takes
}

// of returns the feature of a tool: a single argument, such as "path", tells little.
func (c Complete) of(id string) float64 {
	if !c.Tools[id] {
		return 0
	}
	return min(1, float64(c.Given*c.Given)/4)
}

// argumentTrust is how often arguments that fit a single tool have meant it, if the task says
// little.
const argumentTrust = 0.5

// trustArguments raises the confidence in candidates that the arguments are complete for: the
// less, the more of these there are.
func trustArguments(ranked []Candidate) {
	n := 0.0
	for i := range ranked {
		if ranked[i].Features[ArgumentFeature] > 0 {
			n++
		}
	}
	for i := range ranked {
		c := &ranked[i]
		c.Confidence = 1 - (1-c.Confidence)*(1-argumentTrust*c.Features[ArgumentFeature]/max(1, n))
		if i > 0 {
			c.Confidence = min(c.Confidence, ranked[i-1].Confidence)
		}
	}
}
