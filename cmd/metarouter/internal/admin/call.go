package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/mcp-metarouter/metarouter/internal/approval"
	"github.com/mcp-metarouter/metarouter/internal/classify"
	"github.com/mcp-metarouter/metarouter/internal/plain"
	"github.com/mcp-metarouter/metarouter/internal/schema"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector"
)

func callTool(q *query) (any, error) {
	var asked CallRequest
	if err := q.read(&asked); err != nil {
		return nil, err
	}
	t, err := resolve(q, asked.Tool)
	if err != nil {
		return nil, err
	}
	arguments, err := Merge(t.InputSchema, object(asked.Arguments), asked.Pairs)
	if err != nil {
		return nil, badRequest(err)
	}
	if _, unsafe := selector.Harmless(t); unsafe != "" && !asked.Confirmed {
		return nil, &statusError{http.StatusConflict, errors.New("the call must be confirmed: " + unsafe)}
	}
	call := selector.Call{Tool: t, Arguments: arguments, Client: "dashboard"}
	client := &nonInteractiveClient{consent: asked.Consent}
	if fromCommand(q.Request) {
		call.Client, call.From = "metarouter call", client
	}
	result, err := q.view.Execute(q.Context(), call)
	client.explain(q, t, result.JSON, err)
	if err != nil {
		return nil, notCalled(q, t, err)
	}
	return Called{Outcome: outcomeOf(q, client, t, arguments, result), Result: result.JSON}, nil
}

// object returns the arguments of a request, else {}.
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
		return &statusError{http.StatusBadGateway, fmt.Errorf("server %s answered with an error: %w", t.Server, theirs)}
	}
	return err
}

func outcomeOf(q *query, c *nonInteractiveClient, t *registry.NormalizedTool, arguments json.RawMessage, result selector.Result) Outcome {
	c.mu.Lock()
	defer c.mu.Unlock()
	o := Outcome{IsError: result.IsError, Question: c.question}
	if refused, ok := errors.AsType[*approval.Refused](result.Err); ok {
		o.Refused = refused.Error()
	}
	if len(result.Mismatch) > 0 {
		o.Mismatch = fmt.Sprintf("the arguments do not fit %s; nothing was called:\n  %s\nFor example:\n  %s",
			t.ID, strings.Join(result.Mismatch, "\n  "), Sample(t, Fitting(q.Context(), q.view, t, arguments)))
	}
	if result.IsError && Same(arguments, json.RawMessage("{}")) {
		o.Sample = SampleWithOptional(t)
	}
	return o
}

func routeTask(q *query) (any, error) {
	var asked RouteRequest
	if err := q.read(&asked); err != nil {
		return nil, err
	}
	asked.Arguments = object(asked.Arguments)
	arguments, err := Merge(nil, asked.Arguments, asked.Pairs) // as far as can be said before a tool is picked
	if err != nil {
		return nil, badRequest(err)
	}
	if err := q.awaitTools(false); err != nil {
		return nil, err
	}
	client := &nonInteractiveClient{consent: asked.Consent}
	routed, err := selector.Route(q.Context(), q.view, selector.RouteRequest{
		Query:     selector.Query{Task: asked.Task, Capabilities: asked.Capabilities},
		Call:      selector.Call{Arguments: arguments, Client: "metarouter route", From: client},
		DryRun:    asked.DryRun,
		Threshold: q.router.Config().Router.RouteThreshold,
		RunUnsure: asked.Yes,
		RunUnsafe: asked.Yes,
		Arguments: func(t *registry.NormalizedTool, _ bool) json.RawMessage {
			if typed, err := Merge(t.InputSchema, asked.Arguments, asked.Pairs); err == nil {
				return typed
			}
			return arguments
		},
	})
	if t := routed.Selection.Tool; t != nil {
		client.explain(q, t, routed.Result.JSON, err)
		if err != nil {
			return nil, notCalled(q, t, err)
		}
	}
	if err != nil {
		return nil, err
	}
	q.notePartial(routed.Selection.Partial)
	return routedOf(q, client, asked, routed), nil
}

// notePartial notes the capabilities that no tool has together with the others.
func (q *query) notePartial(missing []string) {
	if len(missing) > 0 {
		q.note("no tool has all the capabilities that you asked for; the tools that are listed lack %q. 'metarouter capabilities' lists the tags", strings.Join(missing, ", "))
	}
}

func routedOf(q *query, c *nonInteractiveClient, asked RouteRequest, routed selector.Routed) Routed {
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
		answer.Outcome = outcomeOf(q, c, t, routed.Arguments, routed.Result)
		answer.Route.Result = routed.Result.JSON
	case !asked.DryRun:
		fitting := Fitting(q.Context(), q.view, t, routed.Arguments)
		if answer.Route.Missing = routed.Missing; len(routed.Missing) > 0 {
			answer.Route.Example = schema.ExampleArguments(t.InputSchema, fitting)
		}
		answer.NotRun = whyNotRun(routed, picked.Places, asked.Yes, fitting)
	}
	return answer
}

// whyNotRun says all that the call lacks, and a command to write instead, with args. --yes is named only if
// it helps: not for a tool that is no sure match.
func whyNotRun(routed selector.Routed, places []string, yes bool, args json.RawMessage) string {
	t := routed.Selection.Tool
	var reasons []string
	if n := len(routed.Missing); n > 0 {
		noun := "argument"
		if n > 1 {
			noun += "s"
		}
		reasons = append(reasons, "it needs the "+noun+" "+strings.Join(routed.Missing, ", "))
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
		message += ". For example:\n  " + Sample(t, args)
	}
	return message
}

// The questions of servers that are explained.
const (
	askModel = "sampling/createMessage"
	askUser  = "elicitation/create"
)

var (
	errNotAgreed = errors.New("you did not agree")
	errNoPerson  = errors.New("no person can be asked here; run the command on a terminal, or add --yes")
	errInScript  = errors.New("no person is asked while a script runs; add --yes")
)

// A nonInteractiveClient is the client of a command's call: it has neither a model nor a person to
// answer the questions of servers, and remembers them. The command's person answers only whether to make
// the call.
type nonInteractiveClient struct {
	consent Consent
	script  bool // it is the client of a script's calls

	mu        sync.Mutex // guards the fields below
	question  string     // for the person, about the call
	questions []question // of servers, each once
	refused   []string   // calls of a script, and why, each once
}

// A question is a request of a server.
type question struct{ server, method string }

// Person implements [approval.Asker]. The person has agreed to a question already, or the command
// asks it when it has the answer.
func (c *nonInteractiveClient) Person() approval.Person {
	return func(_ context.Context, question string) (approval.Answer, error) {
		switch {
		case c.consent.Yes || question == c.consent.Agreed:
			return approval.Accept, nil
		case c.script:
			c.refuse(question)
			return "", errInScript
		case !c.consent.Asks:
			return "", errNoPerson
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.question = question
		return "", errNotAgreed
	}
}

// refuse notes a call that a script may not make without --yes.
func (c *nonInteractiveClient) refuse(call string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !slices.Contains(c.refused, call) && len(c.refused) < 20 {
		c.refused = append(c.refused, call)
	}
}

// Home implements [session.Client].
func (*nonInteractiveClient) Home() session.Client { return nil }

// ClientName implements [session.Client].
func (*nonInteractiveClient) ClientName() string { return "metarouter" }

// Modern implements [session.Client]. Questions in a result stay there; see explain.
func (*nonInteractiveClient) Modern() bool { return true }

// Capabilities implements [session.Client].
func (*nonInteractiveClient) Capabilities() json.RawMessage { return json.RawMessage("{}") }

// Notify implements [session.Client].
func (*nonInteractiveClient) Notify(string, session.Message) {}

// Ask implements [session.Client].
func (c *nonInteractiveClient) Ask(_ context.Context, server string, m session.Message) (json.RawMessage, error) {
	c.remember(server, m.Method)
	return nil, &session.Error{Code: session.CodeMethodNotFound, Message: "a command line can't answer " + m.Method}
}

func (c *nonInteractiveClient) remember(server, method string) {
	q := question{server, method}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !slices.Contains(c.questions, q) {
		c.questions = append(c.questions, q)
	}
}

// explain notes why the questions of servers during the call of the tool were not answered. The call has
// ended with the result or the error.
func (c *nonInteractiveClient) explain(to *query, t *registry.NormalizedTool, result json.RawMessage, err error) {
	c.ended(t, result, err)
	c.noteQuestions(to, "call "+t.ID)
}

// ended remembers the questions in the result or the error of a call.
func (c *nonInteractiveClient) ended(t *registry.NormalizedTool, result json.RawMessage, err error) {
	// Modern servers ask in the result, or name the missing capability in an error.
	if kind, _ := wire.String(wire.Member(result, "resultType")); kind == "input_required" {
		wire.Members(wire.Member(result, "inputRequests"), func(_ string, request []byte) bool {
			method, _ := wire.String(wire.Member(request, "method"))
			c.remember(t.Server, method)
			return true
		})
	}
	const missingCapability = -32021
	if e, ok := errors.AsType[*session.Error](err); ok && e.Code == missingCapability {
		lacks := wire.Member(e.Data, "requiredCapabilities")
		for _, method := range []string{askModel, askUser} {
			if session.Answers(lacks, method) {
				c.remember(t.Server, method)
			}
		}
	}
}

// noteQuestions notes why the questions were not answered, and that an MCP client can do the action.
func (c *nonInteractiveClient) noteQuestions(to *query, action string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, q := range c.questions {
		name := plain.Line(q.server)
		switch q.method {
		case askModel:
			to.note("server %q asked for the answer of a model (sampling), and a command line has no model; %s from an MCP client that offers sampling, such as VS Code", name, action)
		case askUser:
			to.note("server %q asked its user a question (elicitation), which a command line can't show; %s from an MCP client that can, such as VS Code", name, action)
		}
	}
}

func classifyText(q *query) (any, error) {
	var asked ClassifyRequest
	if err := q.read(&asked); err != nil {
		return nil, err
	}
	k := q.router.Config().Router.Classification
	if k != nil && k.Outside != nil && k.Outside.Server != "" {
		_ = q.view.Await(q.Context(), k.Outside.Server) // it may take longer to start than a classification may take
	}
	o, err := q.view.Classifier().Classify(q.Context(), asked.Text)
	switch {
	case errors.Is(err, classify.ErrNoCategories):
		return nil, err
	case err != nil:
		return nil, badRequest(err)
	}
	if k == nil || len(k.Categories) == 0 && k.Outside == nil {
		q.note(`no categories are configured, so the tags of tools are the categories; write your own into "metarouter": {"classification": {"categories": [{"name": "…", "examples": ["…"]}]}}`)
	}
	return Classified{o, o.Categories}, q.Context().Err()
}
