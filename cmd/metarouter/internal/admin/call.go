package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/toolargs"
	"github.com/mcp-metarouter/metarouter/internal/approval"
	"github.com/mcp-metarouter/metarouter/internal/example"
	"github.com/mcp-metarouter/metarouter/internal/plain"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector"
)

// call answers POST /dashboard/call.
func (a *API) call(q *query) (any, error) {
	var asked CallRequest
	if err := q.read(&asked); err != nil {
		return nil, err
	}
	t, err := a.resolve(q, asked.Tool)
	if err != nil {
		return nil, err
	}
	arguments, err := toolargs.Merge(t.InputSchema, object(asked.Arguments), asked.Pairs)
	if err != nil {
		return nil, wrong(err)
	}
	if _, unsafe := selector.Harmless(t); unsafe != "" && !asked.Confirmed {
		return nil, &failed{http.StatusConflict, errors.New("the call must be confirmed: " + unsafe)}
	}
	call := selector.Call{Tool: t, Arguments: arguments, Client: "dashboard"}
	client := &lonelyClient{consent: asked.Consent}
	if fromCommand(q.Request) {
		call.Client, call.From = "metarouter call", client
	}
	result, err := q.scope.Execute(q.Context(), call)
	client.explain(q, t.ID, t.Server, result.JSON, err)
	if err != nil {
		return nil, notCalled(q, t, err)
	}
	return Called{Outcome: a.outcome(q, client, t, arguments, result), Result: result.JSON}, nil
}

// object returns the arguments of a request, {} if there are none.
func object(arguments json.RawMessage) json.RawMessage {
	if len(arguments) == 0 || string(arguments) == "null" {
		return json.RawMessage("{}")
	}
	return arguments
}

// notCalled returns the error of a call of the tool that has no result.
func notCalled(q *query, t *registry.NormalizedTool, err error) error {
	if fromCommand(q.Request) {
		return fmt.Errorf("call %s: %s", t.ID, plain.Line(err.Error()))
	}
	if theirs, ok := errors.AsType[*session.Error](err); ok {
		return &failed{http.StatusBadGateway, fmt.Errorf("server %s answered with an error: %w", t.Server, theirs)}
	}
	return err
}

// outcome returns what became of a call that has a result.
func (a *API) outcome(q *query, c *lonelyClient, t *registry.NormalizedTool, arguments json.RawMessage, result selector.Result) Outcome {
	o := Outcome{IsError: result.IsError, Question: c.question}
	if refused, ok := errors.AsType[*approval.Refused](result.Err); ok {
		o.Refused = refused.Error()
	}
	if len(result.Mismatch) > 0 {
		o.Mismatch = fmt.Sprintf("the arguments do not fit %s; nothing was called:\n  %s\nFor example:\n  %s",
			t.ID, strings.Join(result.Mismatch, "\n  "), toolargs.Sample(t, toolargs.Fitting(q.Context(), q.scope, t, arguments)))
	}
	if result.IsError && toolargs.Same(arguments, json.RawMessage("{}")) {
		o.Sample = toolargs.SampleWithOptional(t)
	}
	return o
}

// route answers POST /dashboard/route.
func (a *API) route(q *query) (any, error) {
	var asked RouteRequest
	if err := q.read(&asked); err != nil {
		return nil, err
	}
	asked.Arguments = object(asked.Arguments)
	arguments, err := toolargs.Merge(nil, asked.Arguments, asked.Pairs) // as far as can be said before a tool is picked
	if err != nil {
		return nil, wrong(err)
	}
	if err := q.awaitTools(); err != nil {
		return nil, err
	}
	client := &lonelyClient{consent: asked.Consent}
	routed, err := selector.Route(q.Context(), q.scope, selector.RouteRequest{
		Query:     selector.Query{Task: asked.Task, Capabilities: asked.Capabilities, Assistant: q.scope.Assistant()},
		Call:      selector.Call{Arguments: arguments, Client: "metarouter route", From: client},
		DryRun:    asked.DryRun,
		Threshold: a.router.Config().Router.RouteThreshold,
		RunUnsure: asked.Yes,
		RunUnsafe: asked.Yes,
		Fill: func(_ context.Context, t *registry.NormalizedTool, _ json.RawMessage, _ bool) (json.RawMessage, bool) {
			if typed, err := toolargs.Merge(t.InputSchema, asked.Arguments, asked.Pairs); err == nil {
				return typed, false
			}
			return arguments, false
		},
	})
	t := routed.Selection.Tool
	if t != nil {
		client.explain(q, t.ID, t.Server, routed.Result.JSON, err)
	}
	if err != nil && t != nil {
		return nil, notCalled(q, t, err)
	} else if err != nil {
		return nil, err
	}
	q.notePartial(routed.Selection.Partial)
	return a.routed(q, client, asked, routed), nil
}

// notePartial notes the capabilities that no tool has together with the others.
func (q *query) notePartial(missing []string) {
	if len(missing) > 0 {
		q.note("no tool has all the capabilities that you asked for; the tools that are listed lack %q. 'metarouter capabilities' lists the tags", strings.Join(missing, ", "))
	}
}

// routed returns what became of a task.
func (a *API) routed(q *query, c *lonelyClient, asked RouteRequest, routed selector.Routed) Routed {
	s, t := routed.Selection, routed.Selection.Tool
	answer := Routed{Route: Route{Sure: s.Sure, Abstained: s.Abstained, By: s.By, Alternatives: []Candidate{}}, Ran: routed.Ran}
	for _, other := range s.Alternatives {
		answer.Route.Alternatives = append(answer.Route.Alternatives, rankedOf(other))
	}
	if t == nil {
		return answer
	}
	picked := candidateOf(t)
	picked.Confidence, picked.Places = s.Confidence, serversOf(s.Places)
	answer.Picked = &picked
	answer.Route.Tool, answer.Route.Score, answer.Route.Confidence = t.ID, s.Score, s.Confidence
	answer.Route.Places, answer.Route.Ambiguous = picked.Places, routed.Ambiguous
	switch {
	case routed.Ran:
		answer.Outcome = a.outcome(q, c, t, routed.Arguments, routed.Result)
		answer.Route.Result = routed.Result.JSON
	case !asked.DryRun:
		fitting := toolargs.Fitting(q.Context(), q.scope, t, routed.Arguments)
		if answer.Route.Missing = routed.Missing; len(routed.Missing) > 0 {
			answer.Route.Example = example.Arguments(t.InputSchema, fitting)
		}
		answer.NotRun = whyNotRun(routed, picked.Places, asked.Yes, fitting)
	}
	return answer
}

// whyNotRun says all that the call lacks, and what to write instead. args are those that an
// example keeps. --yes is named only if it helps: not for a tool that is no sure match.
func whyNotRun(routed selector.Routed, places []string, yes bool, args json.RawMessage) string {
	t := routed.Selection.Tool
	var reasons []string
	if len(routed.Missing) > 0 {
		reasons = append(reasons, "it needs the arguments "+strings.Join(routed.Missing, ", "))
	}
	if routed.Ambiguous {
		reasons = append(reasons, fmt.Sprintf("several servers have this tool (%s), and neither the task nor the arguments say which one is meant; name the server in the task, or run it with 'metarouter call %s'",
			strings.Join(places, ", "), t.ID))
	}
	permission := ""
	if !yes {
		for _, reason := range []string{routed.Unsure, routed.Unsafe} {
			if reason != "" {
				reasons = append(reasons, reason)
				permission = "; --yes runs it all the same"
			}
		}
	}
	switch {
	case !routed.Selection.Sure || routed.Ambiguous:
		permission = ""
	case permission != "" && len(routed.Missing) > 0:
		permission = fmt.Sprintf("; give %s, and add --yes", strings.Join(routed.Missing, ", "))
	}
	message := fmt.Sprintf("%s was not run: %s%s", t.ID, strings.Join(reasons, "; "), permission)
	if len(routed.Missing) > 0 {
		message += ". For example:\n  " + toolargs.Sample(t, args)
	}
	return message
}
