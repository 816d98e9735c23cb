package tools

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/mcp-metarouter/metarouter/internal/taglist"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/selector"
)

// routeArguments are the arguments of route_task.
type routeArguments struct {
	Task             string          `json:"task"`
	Capabilities     []string        `json:"capabilities"`
	Arguments        json.RawMessage `json:"arguments"`
	RunAnyway        bool            `json:"run_anyway"`        // although the confidence is low
	AllowDestructive bool            `json:"allow_destructive"` // although the tool is not known to be harmless
}

// A Proposal is the answer of route_task if it ran no tool.
type Proposal struct {
	Ran    bool     `json:"ran"`             // false
	Reason string   `json:"reason"`          // all that keeps the tool from running
	Needs  []string `json:"needs,omitempty"` // run_anyway, allow_destructive: the permissions that the call needs
	Tool   string   `json:"tool,omitempty"`
	placement
	Description         string          `json:"description,omitempty"`
	Score               float64         `json:"score"`
	Confidence          float64         `json:"confidence"`
	Sure                bool            `json:"sure"`
	Abstained           bool            `json:"abstained"` // no tool fits
	By                  string          `json:"by,omitempty"`
	Arguments           json.RawMessage `json:"arguments,omitempty"`    // left out if they are long
	Missing             []string        `json:"missing,omitempty"`      // required arguments that were not given
	Problems            []string        `json:"problems,omitempty"`     // why the arguments do not fit
	Output              string          `json:"output,omitempty"`       // the type of the structured content
	InputSchema         json.RawMessage `json:"input_schema,omitempty"` // if the arguments do not fit
	MissingCapabilities []string        `json:"missing_capabilities,omitempty"`
	Alternatives        []foundItem     `json:"alternatives,omitempty"`
	Plan                []step          `json:"plan,omitempty"`    // where the task needs several tools
	Nearest             []foundItem     `json:"nearest,omitempty"` // if no tool fits
	ServersNotUp        []serverState   `json:"servers_not_up,omitempty"`
}

// A step is a part of a task and the tool for it.
type step struct {
	Task string `json:"task"`
	Tool string `json:"tool"`
	placement
	Signature  string   `json:"signature"`
	Confidence float64  `json:"confidence"`
	Missing    []string `json:"missing,omitempty"` // arguments that the tool requires
}

// A routeMeta is the member of _meta about a tool that route_task ran.
type routeMeta struct {
	Tool                string   `json:"tool"`
	Score               float64  `json:"score"`
	Confidence          float64  `json:"confidence"`
	Sure                bool     `json:"sure"`
	By                  string   `json:"by,omitempty"`
	MissingCapabilities []string `json:"missing_capabilities,omitempty"`
	placement
}

const (
	shownAlternatives = 5
	alternativeBudget = 500 // tokens
)

// A taskRouter selects the tool for a task and runs it.
type taskRouter struct {
	*Options
	runner *runner
	finder *finder
}

// route answers route_task.
func (r *taskRouter) route(ctx context.Context, a routeArguments, c *toolCall) (json.RawMessage, error) {
	if n := len(a.Capabilities); n > taglist.Max {
		return failure("route_task: a list of %d names is too long; send at most %d", n, taglist.Max), nil
	}
	before := r.Router.Snapshot()
	request := selector.RouteRequest{
		Query: selector.Query{Task: a.Task, Capabilities: a.Capabilities},
		Call:  r.runner.callOf(c, nil, a.Arguments),

		Plan:      len(a.Arguments) == 0, // the schema rejects null; with arguments, the task is one call
		Strict:    true,
		Threshold: r.Settings().RouteThreshold,
		RunUnsure: a.RunAnyway,
		RunUnsafe: a.AllowDestructive,
		Refresh:   func(ctx context.Context) bool { return r.Catalog.Settle(ctx, before) },
	}
	routed, err := selector.Route(ctx, r.Router, request)
	selection, tool := routed.Selection, routed.Selection.Tool
	others := selection.Alternatives[:min(len(selection.Alternatives), shownAlternatives)]
	switch {
	case routed.Ran:
		result, err := r.runner.finish(c, tool, routed.Result, err)
		if err != nil {
			return nil, err
		}
		return wire.SetMeta(result, "route", wire.Marshal(routeMeta{
			tool.ID, round(selection.Score), round(selection.Confidence), selection.Sure, selection.By, selection.Partial,
			placementOf(selection.Places, selection.Ambiguous),
		})), nil
	case err != nil:
		return nil, err
	case len(routed.Plan) > 0:
		return r.planned(routed.Plan), nil
	}
	if tool == nil {
		others = others[:min(len(others), maxNearest)]
		return answer(Proposal{
			Reason:       "no tool fits the task; find_tools searches with other words",
			Abstained:    true,
			Nearest:      r.alternatives(others),
			ServersNotUp: r.finder.notUp(others, nil),
		}), nil
	}
	return r.proposed(request, routed, others), nil
}

// proposed answers with the selected tool, which was not run, and says at once all that
// the call lacks.
func (r *taskRouter) proposed(request selector.RouteRequest, routed selector.Routed, others []selector.Candidate) json.RawMessage {
	selection, tool, args := routed.Selection, routed.Selection.Tool, routed.Arguments
	if len(args) > maxOwnArguments {
		args = nil
	}
	p := Proposal{
		Tool:                tool.ID,
		placement:           placementOf(selection.Places, routed.Ambiguous),
		Description:         firstSentence(tool.Description),
		Score:               round(selection.Score),
		Confidence:          round(selection.Confidence),
		Sure:                selection.Sure,
		By:                  selection.By,
		Arguments:           args,
		Missing:             routed.Missing,
		Problems:            routed.Problems,
		Output:              outputType(tool),
		MissingCapabilities: selection.Partial,
		Alternatives:        r.alternatives(others),
	}
	var reasons []string
	if len(p.Missing) > 0 {
		reasons = append(reasons, "arguments are missing: "+strings.Join(p.Missing, ", "))
	} else if routed.Unchecked {
		reasons = append(reasons, "the arguments could not be compared with the tool's schema; call_tool runs the tool all the same")
	} else if len(p.Problems) > 0 {
		reasons = append(reasons, "the arguments do not fit the tool's schema")
	}
	if len(reasons) > 0 {
		p.InputSchema = tool.InputSchema
	}
	if routed.Ambiguous {
		reasons = append(reasons, p.question(tool.ID))
	}
	if routed.Unsure != "" && !request.RunUnsure {
		reasons = append(reasons, routed.Unsure+"; run_anyway runs the tool all the same")
		p.Needs = append(p.Needs, "run_anyway")
	}
	if routed.Unsafe != "" && !request.RunUnsafe {
		reasons = append(reasons, "not run without permission: "+routed.Unsafe+"; allow_destructive permits it")
		p.Needs = append(p.Needs, "allow_destructive")
	}
	p.Reason = strings.Join(reasons, "; ")
	return answer(p)
}

// planned answers with the steps of a task that needs several tools.
func (r *taskRouter) planned(plan []selector.Step) json.RawMessage {
	p := Proposal{Reason: "the task needs several tools; run each with call_tool", Sure: true, Confidence: 1}
	for _, part := range plan {
		p.Sure, p.Confidence = p.Sure && part.Sure, min(p.Confidence, round(part.Confidence))
		p.Plan = append(p.Plan, step{
			Task: part.Task, Tool: part.Tool.ID, placement: placementOf(part.Places, part.Ambiguous), Signature: signature(part.Tool),
			Confidence: round(part.Confidence), Missing: selector.Missing(part.Tool, nil),
		})
	}
	return answer(p)
}

// alternatives describes the tools that were not selected.
func (r *taskRouter) alternatives(others []selector.Candidate) []foundItem {
	entries, _ := r.finder.entries(others, alternativeBudget, false, false)
	return entries
}
