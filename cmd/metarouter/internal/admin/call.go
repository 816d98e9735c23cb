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
	"sync/atomic"

	"github.com/mcp-metarouter/metarouter/internal/approval"
	"github.com/mcp-metarouter/metarouter/internal/classify"
	"github.com/mcp-metarouter/metarouter/internal/commandline"
	"github.com/mcp-metarouter/metarouter/internal/plain"
	"github.com/mcp-metarouter/metarouter/internal/schema"
	"github.com/mcp-metarouter/metarouter/internal/script"
	"github.com/mcp-metarouter/metarouter/internal/script/host"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector"
)

func callTool(q *query, in CallRequest) (any, error) {
	t, err := resolve(q, in.Tool)
	if err != nil {
		return nil, err
	}
	arguments, err := Merge(t.InputSchema, object(in.Arguments), in.Pairs)
	if err != nil {
		return nil, badRequest(err)
	}
	if _, unsafe := selector.Harmless(t); unsafe != "" && !in.Confirmed {
		return nil, &statusError{http.StatusConflict, errors.New("the call must be confirmed: " + unsafe)}
	}
	call := selector.Call{Tool: t, Arguments: arguments, Client: "dashboard"}
	client := &nonInteractiveClient{yes: in.Yes, agreed: in.Agreed}
	if fromCommand(q.Request) {
		call.Client, call.From = "metarouter call", client
	}
	result, err := q.view.Execute(q.Context(), call)
	return answerOf(q, client, t, result, err)
}

// object returns the arguments of a request, else {}.
func object(arguments json.RawMessage) json.RawMessage {
	if len(arguments) == 0 || string(arguments) == "null" {
		return json.RawMessage("{}")
	}
	return arguments
}

// answerOf returns the answer for a call of the tool that ended with the result or the error.
func answerOf(q *query, c *nonInteractiveClient, t *registry.NormalizedTool, result selector.Result, err error) (Answer, error) {
	c.ended(t, result.JSON, err)
	unasked := c.report(q)
	theirs, isTheirs := errors.AsType[*session.Error](err)
	switch {
	case err != nil && fromCommand(q.Request):
		return Answer{}, fmt.Errorf("call %s: %s", t.ID, plain.Line(err.Error()))
	case isTheirs:
		return Answer{}, &statusError{http.StatusBadGateway, fmt.Errorf("server %s answered with an error: %w", t.Server, theirs)}
	case err != nil:
		return Answer{}, err
	}
	a := Answer{Result: result.JSON, IsError: result.IsError}
	if refused, ok := errors.AsType[*approval.Refused](result.Err); ok {
		a.NotRun = refused.Error()
		if len(unasked) > 0 {
			a.Question = unasked[0]
		}
	} else if len(result.Mismatch) > 0 {
		a.NotRun = fmt.Sprintf("the arguments do not fit %s; nothing was called:\n  %s\nWrite:\n  %s", t.ID, strings.Join(result.Mismatch, "\n  "), Usage(t.ID, t.InputSchema))
	}
	return a, nil
}

func routeTask(q *query, in RouteRequest) (any, error) {
	in.Arguments = object(in.Arguments)
	arguments, err := Merge(nil, in.Arguments, in.Pairs) // as far as can be said before a tool is picked
	if err != nil {
		return nil, badRequest(err)
	}
	if err := q.awaitTools(false); err != nil {
		return nil, err
	}
	client := &nonInteractiveClient{yes: in.Yes, agreed: in.Agreed}
	routed, err := selector.Route(q.Context(), q.view, selector.RouteRequest{
		Query:     selector.Query{Task: in.Task, Capabilities: in.Capabilities},
		Call:      selector.Call{Arguments: arguments, Client: "metarouter route", From: client},
		DryRun:    in.DryRun,
		Threshold: q.router.Config().Router.RouteThreshold,
		RunUnsure: in.Yes,
		RunUnsafe: in.Yes,
		Arguments: func(t *registry.NormalizedTool, _ bool) json.RawMessage {
			if typed, err := Merge(t.InputSchema, in.Arguments, in.Pairs); err == nil {
				return typed
			}
			return arguments
		},
	})
	s, answer := routed.Selection, Answer{}
	if t := s.Tool; t != nil && (routed.Ran || err != nil) {
		answer, err = answerOf(q, client, t, routed.Result, err)
	}
	if err != nil {
		return nil, err
	}
	q.notePartial(s.Partial)
	route := Route{Candidate: Candidate{Capabilities: []string{}}, Sure: s.Sure, Abstained: s.Abstained, By: s.By, Alternatives: []Candidate{}, Result: answer.Result}
	for _, other := range s.Alternatives {
		route.Alternatives = append(route.Alternatives, rankedOf(other))
	}
	if t := s.Tool; t != nil {
		route.Candidate = candidateOf(t)
		route.Score, route.Confidence, route.Places, route.Ambiguous = s.Score, s.Confidence, serversOf(s.Places), routed.Ambiguous
		if !routed.Ran && !in.DryRun {
			route.Missing = routed.Missing
			answer.NotRun = whyNotRun(routed, in.Yes)
		}
	}
	answer.Route = route
	return answer, nil
}

// notePartial notes the capabilities that no tool has together with the others.
func (q *query) notePartial(missing []string) {
	if len(missing) > 0 {
		q.note("no tool has all the capabilities that you asked for; the tools that are listed lack %q. 'metarouter capabilities' lists the tags", strings.Join(missing, ", "))
	}
}

// whyNotRun says all that the call lacks, and a command to write instead. --yes is named only if it helps: not
// for a tool that is no sure match.
func whyNotRun(routed selector.Routed, yes bool) string {
	t, lacks := routed.Selection.Tool, strings.Join(routed.Missing, ", ")
	var reasons []string
	if len(routed.Missing) == 1 {
		reasons = append(reasons, "it needs the argument "+lacks)
	} else if lacks != "" {
		reasons = append(reasons, "it needs the arguments "+lacks)
	}
	if routed.Ambiguous {
		reasons = append(reasons, fmt.Sprintf("several servers have this tool (%s), and neither the task nor the arguments say which one is meant; name the server in the task, or run it with 'metarouter call %s'",
			strings.Join(serversOf(routed.Selection.Places), ", "), commandline.Quote(t.ID)))
	}
	permission := ""
	for _, reason := range []string{routed.Unsure, routed.Unsafe} {
		if reason != "" && !yes {
			reasons, permission = append(reasons, reason), "; --yes permits it"
		}
	}
	message := fmt.Sprintf("%s was not run: %s", t.ID, strings.Join(reasons, "; "))
	if routed.Selection.Sure && !routed.Ambiguous {
		message += permission
	}
	if lacks != "" {
		message += ". Write:\n  " + Usage(t.ID, t.InputSchema)
	}
	return message
}

// asks says what the questions of servers are.
var asks = map[string]string{
	"sampling/createMessage": "asked for the answer of a model (sampling)",
	"elicitation/create":     "asked its user a question (elicitation)",
	needsMore:                "needs an answer of a model (sampling) or of its user (elicitation)",
}

// needsMore stands for the questions of a modern server that asks none of a client without the capability for it.
const (
	needsMore         = "capability"
	missingCapability = -32021

	maxRefused = 20 // calls of a script that the answer names
)

var errNotAgreed = errors.New("nobody has agreed; run the command on a terminal and answer y, or add --yes")

// A nonInteractiveClient is the client of a command's calls: it has neither a model nor a person to
// answer the questions of servers, and remembers them. The person of the command agrees to calls before they
// are made: to all, or to one question.
type nonInteractiveClient struct {
	yes    bool
	agreed string

	mu        sync.Mutex // guards the fields below
	questions []string   // of servers, each once
	refused   []string   // calls to which the person has not agreed, and why, each once
}

// Person implements [approval.Asker].
func (c *nonInteractiveClient) Person() approval.Person {
	return func(_ context.Context, question string) (approval.Answer, error) {
		if c.yes || question == c.agreed {
			return approval.Accept, nil
		}
		c.refuse(question)
		return "", errNotAgreed
	}
}

// refuse remembers a call to which the person has not agreed.
func (c *nonInteractiveClient) refuse(call string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !slices.Contains(c.refused, call) && len(c.refused) < maxRefused {
		c.refused = append(c.refused, call)
	}
}

// report notes the questions of servers, which may still come, and returns the calls to which the person has not agreed.
func (c *nonInteractiveClient) report(q *query) (refused []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, question := range c.questions {
		q.note("%s", question)
	}
	return slices.Clone(c.refused)
}

// Home implements [session.Client].
func (*nonInteractiveClient) Home() session.Client { return nil }

// ClientName implements [session.Client].
func (*nonInteractiveClient) ClientName() string { return "metarouter" }

// Modern implements [session.Client]. Questions in a result stay there; see ended.
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

// remember notes a request of a server that a command can't answer.
func (c *nonInteractiveClient) remember(server, method string) {
	does := asks[method]
	if does == "" {
		return
	}
	note := fmt.Sprintf("server %q %s, which a command can't answer; call the tool from an MCP client that can, such as VS Code", server, does)
	c.mu.Lock()
	defer c.mu.Unlock()
	if !slices.Contains(c.questions, note) {
		c.questions = append(c.questions, note)
	}
}

// ended remembers the questions in the result or the error of a call: modern servers ask there.
func (c *nonInteractiveClient) ended(t *registry.NormalizedTool, result json.RawMessage, err error) {
	if e, ok := errors.AsType[*session.Error](err); ok && e.Code == missingCapability {
		c.remember(t.Server, needsMore)
	}
	if wire.IsString(wire.Member(result, "resultType"), "input_required") {
		for _, request := range wire.All(wire.Member(result, "inputRequests")) {
			method, _ := wire.String(wire.Member(request, "method"))
			c.remember(t.Server, method)
		}
	}
}

func classifyText(q *query, in ClassifyRequest) (any, error) {
	k := q.router.Config().Router.Classification
	o, err := q.view.Classifier().Classify(q.Context(), in.Text)
	switch {
	case errors.Is(err, classify.ErrNoCategories):
		return nil, err
	case err != nil:
		return nil, badRequest(err)
	}
	if k == nil || len(k.Categories) == 0 {
		q.note(`no categories are configured, so the tags of tools are the categories; write your own into "metarouter": {"classification": {"categories": [{"name": "…", "examples": ["…"]}]}}`)
	}
	return Classified{o, o.Categories}, q.Context().Err()
}

// Merge sets the KEY=VALUE pairs in the object. A value is a string where the
// tool's schema says so, else JSON if it is valid JSON.
func Merge(schema, object json.RawMessage, pairs []string) (json.RawMessage, error) {
	if len(pairs) > 200 { // each reads the schema and the object again
		return nil, fmt.Errorf("%d KEY=VALUE pairs are too many; give at most 200, or all as JSON with --args", len(pairs))
	}
	properties := wire.Member(schema, "properties")
	given := make(map[string]bool)
	for _, pair := range pairs {
		key, value, ok := strings.Cut(pair, "=")
		if !ok {
			return nil, fmt.Errorf("argument %q has no '='; write key=value", pair)
		}
		if given[key] {
			return nil, fmt.Errorf("argument %q is given twice; write it once", key)
		}
		given[key] = true
		encoded := []byte(value)
		kinds := string(wire.Member(wire.Member(properties, key), "type")) // a string, or an array of strings
		text := strings.Contains(kinds, `"string"`) && !strings.Contains(kinds, `"number"`) && !strings.Contains(kinds, `"integer"`)
		if text || !wire.Valid(encoded) {
			encoded = wire.Marshal(value)
		}
		object = wire.SetMember(object, key, encoded)
	}
	return object, nil
}

// maxUsage bounds the arguments of a command that [Usage] returns.
const maxUsage = 20

// Usage returns the command that calls the tool of the ID, with TEXT, NUMBER or JSON for the value of each argument that its schema
// for the input requires. If no KEY=VALUE pair can name an argument, the command has --args instead.
func Usage(id string, input json.RawMessage) string {
	command := "metarouter call " + commandline.Quote(id)
	properties, required := wire.Member(input, "properties"), schema.ParametersOf(input).Required
	if slices.ContainsFunc(required, func(name string) bool { return strings.HasPrefix(name, "-") || strings.Contains(name, "=") }) {
		return command + " --args JSON"
	}
	for _, name := range required[:min(len(required), maxUsage)] {
		value := "JSON"
		switch kinds := string(wire.Member(wire.Member(properties, name), "type")); {
		case strings.Contains(kinds, `"string"`):
			value = "TEXT"
		case strings.Contains(kinds, `"number"`) || strings.Contains(kinds, `"integer"`):
			value = "NUMBER"
		}
		command += " " + commandline.Quote(name+"="+value)
	}
	return command
}

func runScript(q *query, asked ScriptRequest) (any, error) {
	client := &nonInteractiveClient{yes: asked.Yes}
	part := func(ctx context.Context) *query { // of a call, which ends with the script
		return &query{Request: q.WithContext(ctx), API: q.API, view: q.view}
	}
	var acted atomic.Bool // a call may have had an effect, so that the script must not run again
	allow := func(t *registry.NormalizedTool) error {
		if _, unsafe := selector.Harmless(t); unsafe != "" && !asked.Yes {
			client.refuse(t.ID + ": " + unsafe)
			return fmt.Errorf("%s was not run: %s; --yes lets the script run it", t.ID, unsafe)
		}
		if !t.Reads() {
			acted.Store(true)
		}
		return nil
	}
	o := q.view.RunScript(q.Context(), host.Run{
		Script: selector.Script{Code: asked.Code, Input: asked.Input, Timeout: asked.Timeout},
		Call: selector.Call{Client: "metarouter script", From: client, Unfit: func(t *registry.NormalizedTool) bool {
			_, unsafe := selector.Harmless(t)
			return unsafe != "" && !asked.Yes
		}},
		Tool: func(ctx context.Context, name string, _ session.Client) (*registry.NormalizedTool, error) {
			return resolve(part(ctx), name)
		},
		Find: func(ctx context.Context, task selector.Query) (selector.Ranking, error) {
			if err := part(ctx).awaitTools(false); err != nil {
				return selector.Ranking{}, err
			}
			return q.view.Find(ctx, task)
		},
		Allow: allow,
		Called: func(_ context.Context, t *registry.NormalizedTool, r selector.Result, err error) {
			client.ended(t, r.JSON, err)
		},
	})
	refused := client.report(q)
	o.Calls = append([]script.Made{}, o.Calls...)
	if o.Err != nil {
		q.noteFailed(q.view.Servers(), true)
	}
	answer := Scripted{Script: o}
	if !acted.Load() {
		answer.Refused = refused
	}
	return answer, q.Context().Err()
}
