package selector

import (
	"cmp"
	"context"
	"fmt"
	"time"
)

// An Assistant is a model that chooses the tool for a task where the ranking is not sure.
type Assistant interface {
	// Choose returns the index of the choice that does the task, or a negative number if
	// no choice does. Each choice is the ID of a tool and its description; the text is a
	// server's, and not trusted. Choose returns when ctx ends at the latest.
	Choose(ctx context.Context, task string, choices []string) (int, error)
}

// Values of By of [Ranking].
const (
	byRanking = "ranking"
	byModel   = "model"
)

const (
	assistWait = 3 * time.Second // for the Assistant; then the ranking stays as it is
	maxChoices = 20              // that the Assistant is shown

	// chosenConfidence is the confidence in a tool that the Assistant chose among the
	// nearest. It is an estimate and not calibrated: models differ.
	chosenConfidence = 0.7
)

// ask has the Assistant of the query choose among the first tools if the first one is not sure. It moves the chosen tool to the front and reports true.
// If the Assistant chooses no tool, fails or is late, the ranking stays as it is.
func ask(ctx context.Context, q Query, ranked []Candidate) bool {
	if q.Assistant == nil || len(ranked) == 0 || sure(ranked, q.Threshold) {
		return false
	}
	first := ranked[:min(len(ranked), maxChoices)]
	choices := make([]string, len(first))
	for i, c := range first {
		choices[i] = fmt.Sprintf("%s: %s", c.Tool.ID, cmp.Or(c.Tool.Description, c.Tool.Title))
	}
	ctx, cancel := context.WithTimeout(ctx, assistWait)
	defer cancel()
	i, err := q.Assistant.Choose(ctx, q.Task, choices)
	if err != nil || i < 0 || i >= len(first) {
		return false
	}
	choose(ranked, i)
	return true
}

// choose moves the tool at index i to the front. The others share the rest of the
// confidence, so that it does not grow from one tool to the next.
func choose(ranked []Candidate, i int) {
	chosen := ranked[i]
	copy(ranked[1:i+1], ranked[:i])
	chosen.Confidence = max(chosen.Confidence, chosenConfidence)
	ranked[0] = chosen
	for j := range ranked[1:] {
		ranked[1+j].Confidence *= 1 - chosenConfidence
	}
}
