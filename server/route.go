package server

import (
	"context"
	"encoding/json"

	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/selector"
)

// What route_task takes.
type routeArguments struct {
	Task             string          `json:"task"`
	Capabilities     []string        `json:"capabilities"`
	Arguments        json.RawMessage `json:"arguments"`
	AllowDestructive bool            `json:"allow_destructive"`
}

// A proposal is the answer of route_task where it ran nothing.
type proposal struct {
	Ran                 bool            `json:"ran"` // false
	Reason              string          `json:"reason"`
	Tool                string          `json:"tool,omitempty"`
	Description         string          `json:"description,omitempty"`
	Score               float64         `json:"score,omitempty"`
	Confidence          float64         `json:"confidence,omitempty"`
	Arguments           json.RawMessage `json:"arguments,omitempty"`
	Missing             []string        `json:"missing,omitempty"`      // required arguments that were not given
	Problems            []string        `json:"problems,omitempty"`     // why the arguments do not fit
	InputSchema         json.RawMessage `json:"input_schema,omitempty"` // if they do not
	MissingCapabilities []string        `json:"missing_capabilities,omitempty"`
	Alternatives        []entry         `json:"alternatives,omitempty"`
	Plan                []step          `json:"plan,omitempty"`      // where the task needs several tools
	Abstained           bool            `json:"abstained,omitempty"` // no tool fits
	Nearest             []entry         `json:"nearest,omitempty"`   // then
	ServersNotUp        []serverState   `json:"servers_not_up,omitempty"`
}

// A step is a part of a task and the tool for it.
type step struct {
	Task       string   `json:"task"`
	Tool       string   `json:"tool"`
	Signature  string   `json:"signature"`
	Confidence float64  `json:"confidence"`
	Missing    []string `json:"missing,omitempty"` // arguments that the tool requires
}

// A route is what _meta says of a tool that route_task ran.
type route struct {
	Tool                string   `json:"tool"`
	Score               float64  `json:"score"`
	Confidence          float64  `json:"confidence"`
	MissingCapabilities []string `json:"missing_capabilities,omitempty"`
}

const (
	shownAlternatives = 5
	alternativeBudget = 500 // tokens
)

func (s *Server) routeTask(ctx context.Context, args json.RawMessage, c *call) (json.RawMessage, error) {
	var a routeArguments
	if err := json.Unmarshal(args, &a); err != nil {
		return failure("route_task: %v", err), nil
	}
	query := selector.Query{Task: a.Task, Capabilities: a.Capabilities}
	before := s.router.Snapshot()
	selection, err := s.router.Select(ctx, query)
	if err == nil && selection.Abstained && s.settle(ctx, before) {
		selection, err = s.router.Select(ctx, query)
	}
	if err != nil {
		return nil, err
	}
	if len(a.Arguments) == 0 { // else one call is meant
		plan, err := s.router.Plan(ctx, query)
		if err != nil {
			return nil, err
		}
		if len(plan) > 0 {
			return s.planned(plan, c), nil
		}
	}
	others := selection.Alternatives[:min(len(selection.Alternatives), shownAlternatives)]
	tool := selection.Tool
	if selection.Abstained || tool == nil {
		return answer(proposal{
			Reason:       "no tool fits the task; find_tools searches with other words",
			Abstained:    true,
			Nearest:      s.alternatives(others),
			ServersNotUp: s.notUp(others, nil),
		}), nil
	}

	given := a.Arguments
	if len(given) == 0 || string(given) == "null" {
		given = json.RawMessage("{}")
	}
	safe, why := selector.MayRun(selection, s.opts.RouteThreshold)
	permitted := safe || a.AllowDestructive
	if s.opts.FillArguments && wire.IsObject(given) {
		var agreed bool
		given, agreed = s.fill(ctx, c, a.Task, tool, given, permitted)
		permitted = permitted || agreed
	}
	p := proposal{
		Tool:                tool.ID,
		Description:         firstSentence(tool.Description),
		Score:               round(selection.Score),
		Confidence:          round(selection.Confidence),
		Arguments:           given,
		MissingCapabilities: selection.Partial,
	}
	fixed, problems := s.router.Check(tool, given)
	switch {
	case len(problems) > 0:
		p.Reason = "the arguments do not fit the tool's schema"
		p.Problems = problems
		p.InputSchema = tool.InputSchema
		if p.Missing = selector.Missing(tool, given); len(p.Missing) > 0 {
			p.Reason = "arguments are missing"
		}
		if !safe {
			p.Reason += "; and it is not run unasked: " + why
		}
	case !permitted:
		p.Reason = "not run unasked: " + why + "; allow_destructive runs it"
		p.Arguments = fixed
	default:
		s.memory.note(c.finder(), a.Task, []string{tool.ID})
		result, err := s.execute(ctx, tool, given, c)
		if err != nil {
			return nil, err
		}
		return withMeta(result, "route", wire.Marshal(route{tool.ID, p.Score, p.Confidence, selection.Partial})), nil
	}
	p.Alternatives = s.alternatives(others)
	return answer(p), nil
}

// planned answers with the steps of a task that no one tool does.
func (s *Server) planned(plan []selector.Step, c *call) json.RawMessage {
	p := proposal{Reason: "the task needs several tools; run each with call_tool"}
	for _, part := range plan {
		s.memory.note(c.finder(), part.Task, []string{part.Tool.ID})
		p.Plan = append(p.Plan, step{
			Task: part.Task, Tool: part.Tool.ID, Signature: signature(part.Tool),
			Confidence: round(part.Confidence), Missing: selector.Missing(part.Tool, nil),
		})
	}
	return answer(p)
}

// alternatives describes tools that were not chosen.
func (s *Server) alternatives(others []selector.Candidate) []entry {
	entries, _ := s.describe(others, alternativeBudget)
	return entries
}
