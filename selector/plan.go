package selector

import (
	"context"

	"github.com/mcp-metarouter/metarouter/selector/internal/text"
)

// A Step is a part of a task, and the tool for it.
type Step struct {
	Task string // in the task's own words
	Selection
}

// planConfidence is the least confidence in the tool of a step.
const planConfidence = 0.5

// Plan returns the steps of a task for which different tools are right; nil if one
// tool will do, or no more can be told. Kinds and Limit are not looked at.
func (s *Selector) Plan(ctx context.Context, q Query) ([]Step, error) {
	var plan []Step
	tools := make(map[string]bool)
	for _, part := range text.Actions(q.Task) {
		step := q
		step.Task, step.whole = part, q.Task
		selection, err := s.Select(ctx, step)
		if err != nil {
			return nil, err
		}
		if selection.Tool == nil || selection.Confidence < planConfidence || tools[selection.Tool.ID] {
			continue
		}
		tools[selection.Tool.ID] = true
		plan = append(plan, Step{part, selection})
	}
	if len(plan) < 2 {
		return nil, nil
	}
	return plan, nil
}
