package selector

import (
	"context"
	"regexp"
	"strings"
)

// A Step is a part of a task, and the tool for it.
type Step struct {
	Task string // in the task's own words
	Selection
}

const (
	// planConfidence is the least confidence in the tool of a step.
	planConfidence = 0.5

	maxPlan = 10 // steps
)

// parts is what may stand between two things to be done.
var parts = regexp.MustCompile(`[.!?;]\s+|\n+|[。！？；]|,?\s+(?:and\s+)?then\s+|,\s+(?:and\s+)?|\s+and\s+`)

// Plan returns the steps of a task for which different tools are right; nil if one
// tool will do, or no more can be told. Kinds and Limit are not looked at.
func (s *Selector) Plan(ctx context.Context, q Query) ([]Step, error) {
	var plan []Step
	tools := make(map[string]bool)
	for _, part := range actions(q.Task) {
		step := q
		step.Task = part
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

// actions cuts a task into what is to be done one after the other: each begins
// with a word for an action, and what does not belongs to what is before.
func actions(text string) (all []string) {
	text = text[:min(len(text), maxTask)]
	cuts := parts.FindAllStringIndex(text, -1)
	begin := 0
	for _, cut := range append(cuts, []int{len(text), len(text)}) {
		end := cut[0]
		words := Words(text[begin:end])
		isAction := len(words) > 1 && wordLists().actions[words[0]]
		switch {
		case len(all) > 0 && !isAction:
			all[len(all)-1] += " " + text[begin:end]
		case len(words) > 0 && len(all) < maxPlan:
			all = append(all, text[begin:end])
		}
		begin = cut[1]
	}
	for i := range all {
		all[i] = strings.TrimSpace(all[i])
	}
	return all
}
