// Package tools answers tools/call: it runs the tools of servers and the router's
// own tools, which find, describe and run the others.
//
//	Tools.Call ─▶ runner.run ─▶ Router.Execute          a tool of a server
//	          └─▶ Tools.callOwn ─▶ finder, taskRouter, …    one of our own tools
//
// A runner runs a tool of a server for a client; all ways to run one use it. A
// finder finds and describes, a taskRouter selects and runs, a reporter says in
// _meta and to the observer how our own tools ran. Long results are cut to the
// server's limit; results keeps the rest for the client that got them, and a memory
// keeps what was found for which task, so that the router learns from what is
// called then.
//
// Of the packages in server/internal, it imports conversation, catalog and budget only.
package tools

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/classify"
	"github.com/mcp-metarouter/metarouter/internal/execute"
	"github.com/mcp-metarouter/metarouter/internal/prose"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector"
	"github.com/mcp-metarouter/metarouter/server/internal/budget"
	"github.com/mcp-metarouter/metarouter/server/internal/catalog"
	"github.com/mcp-metarouter/metarouter/server/internal/conversation"
)

// A Router finds and runs tools, as [adapter.Parts] does.
type Router interface {
	selector.Provider

	// Snapshot returns the catalog as it is now. It does not block.
	Snapshot() *registry.Snapshot

	// Servers returns the state of each server of the configuration.
	Servers() []adapter.ServerInfo

	Find(ctx context.Context, q selector.Query) (selector.Ranking, error)

	// Classifier sorts texts into categories.
	Classifier() *classify.Classifier

	// Assistant returns the model to ask where a search is not sure, or nil for none.
	Assistant() selector.Assistant

	// LogIn begins a login if err, by which a request of the client has failed, says that one is
	// needed. It reports false if none would help. With a nil error, a person has logged in. Errors
	// wrap [session.ErrNotSent] if they are no [*session.Error].
	LogIn(ctx context.Context, from session.Client, err error) (bool, error)

	// Learn notes that the client called a tool after it had searched for a task.
	Learn(ctx context.Context, u selector.Use)
}

// Savings counts how many tokens clients were spared, and how many the definitions of tools
// cost that they listed. Its methods are called by many goroutines at once, and must not block.
type Savings interface {
	Saved(by Saving, tokens int)

	// Listed counts a list of tools, or a page of one, that a client got. The names are as in a
	// [selector.Execution].
	Listed(client, principal, profile string, tokens int)
}

// A Saving says what spared a client tokens.
type Saving string

// The kinds of savings.
const (
	BySearchMode  Saving = "search_mode"  // a list of all tools would have been longer
	ByResultLimit Saving = "result_limit" // the result was longer than what was shown of it
)

// Options say how tools are called. Router, Catalog and Node are required.
type Options struct {
	Router  Router
	Catalog *catalog.Catalog
	Tasks   catalog.Tasks
	Node    string // this machine, as in node_id
	Version string // of the router

	// RouteTask returns what is in force for route_task: the confidence below which it
	// runs no tool by itself, and whether it asks the client for missing arguments and
	// for agreement.
	RouteTask func() (threshold float64, fills bool)

	// Samples reports whether clients' own models are asked where a search is not sure; may
	// be nil for no.
	Samples func() bool

	// Profile returns the names of the profiles that limit the clients now, for the observer and
	// in spans; nil is "".
	Profile func() string

	Observer selector.Observer // notified of calls; may be nil
	Tracer   trace.Tracer      // makes spans of the calls of our own tools; may be nil
	Savings  Savings           // counts what clients were spared; may be nil

	Budgets *Budgets // nil for a router with one server
}

// Budgets bound what the servers of one router keep together for their clients.
type Budgets struct {
	results  *budget.Budget // in bytes
	findings *budget.Budget // in clients, as models
	models   *budget.Budget
}

// NewBudgets returns the budgets of a router.
func NewBudgets() *Budgets {
	return &Budgets{results: budget.New(maxAllKeptBytes), findings: budget.New(maxClients), models: budget.New(maxClients)}
}

// Tools answers tools/call. Its methods may be called by many goroutines at once.
type Tools struct {
	router   Router
	catalog  *catalog.Catalog
	own      map[string]ownTool
	runner   *runner
	reporter *reporter
	memory   *memory
	models   *assistants
	results  *results
	tracer   trace.Tracer
}

// definitions are those of the router's own tools. Claude Code hides the tools of MCP servers
// behind a search of its own, unless their _meta has anthropic/alwaysLoad: a model would
// search for find_tools before it could search.
//
//go:embed tools.json
var definitions []byte

// An ownTool is a tool of the router itself.
type ownTool struct {
	*registry.NormalizedTool
	run ownHandler
}

// An ownHandler answers a call of one of our own tools, given its arguments, which
// fit the tool's schema. It bounds its work and its answer itself, whatever the schema says. It
// fails as Execute of a [Router] does.
type ownHandler func(ctx context.Context, args json.RawMessage, c *call) (json.RawMessage, error)

// A call is a client's call of a tool, of a server or our own. What it embeds knows the
// parameters, the request and the client.
type call struct {
	conversation.Call
	executed bool      // a server's tool was executed, which has put _meta into the result and notified the observer
	trace    string    // the id of the trace of one of our own tools, "" if it has none
	form     *callForm // of a call of call_tool that is not written as its schema asks
	repaired string    // what was done to the arguments of one of our own tools
}

// repair notes what was done to the arguments.
func (c *call) repair(how ...string) {
	c.repaired = prose.Clauses(append([]string{c.repaired}, how...)...)
}

// Own returns the definitions of the router's own tools.
func Own() []*registry.NormalizedTool {
	var all []json.RawMessage
	if err := json.Unmarshal(definitions, &all); err != nil {
		panic("tools.json: " + err.Error())
	}
	tools := make([]*registry.NormalizedTool, len(all))
	for i, indented := range all {
		var definition bytes.Buffer
		_ = json.Compact(&definition, indented)
		t := &registry.NormalizedTool{Definition: definition.Bytes()}
		t.InputSchema = wire.Member(t.Definition, "inputSchema")
		t.Name, _ = wire.String(wire.Member(t.Definition, "name"))
		t.ID = registry.ID("", t.Name)
		tools[i] = t
	}
	return tools
}

// New returns the tools of a router.
func New(o Options) *Tools {
	b := o.Budgets
	if b == nil {
		b = NewBudgets()
	}
	t := &Tools{router: o.Router, catalog: o.Catalog, own: make(map[string]ownTool), tracer: o.Tracer}
	t.memory = newMemory(b.findings)
	t.models = newAssistants(b.models, o.Router, o.Samples)
	t.results = newResults(b.results, func(tool string) bool {
		_, ok := o.Router.Snapshot().Tool(tool)
		return ok
	})
	t.runner = &runner{
		router: o.Router, tasks: o.Tasks, memory: t.memory, results: t.results,
		savings: o.Savings, observed: o.Observer != nil,
	}
	if o.Profile == nil {
		o.Profile = func() string { return "" }
	}
	t.reporter = &reporter{catalog: o.Catalog, profile: o.Profile, node: o.Node, version: o.Version, observer: o.Observer, tracer: o.Tracer}
	found := &finder{router: o.Router, catalog: o.Catalog, memory: t.memory, models: t.models}
	routes := &taskRouter{
		router: o.Router, catalog: o.Catalog, memory: t.memory, runner: t.runner, finder: found,
		settings: o.RouteTask,
	}
	handlers := map[string]ownHandler{
		"find_tools":          found.find,
		"describe_tools":      found.describe,
		"call_tool":           t.callerFor("call_tool"),
		"call_read_only_tool": t.callerFor("call_read_only_tool"),
		"route_task":          routes.route,
		"read_result":         t.results.read,
		"list_categories":     t.listCategories,
		"classify_text":       t.classifyText,
	}
	for _, own := range Own() {
		t.own[own.Name] = ownTool{own, handlers[own.Name]}
	}
	return t
}

// Forget drops what is kept for a client that has left; see Owner of
// [conversation.Request].
func (t *Tools) Forget(owner any) {
	t.memory.forget(owner)
	t.models.forget(owner)
	t.results.forget(owner)
}

// Clear drops what is kept for all clients.
func (t *Tools) Clear() {
	t.memory.clear()
	t.models.clear()
	t.results.clear()
}

// ReadKept returns the text of a long result that the client got before. It reports
// false if no such text is kept.
func (t *Tools) ReadKept(owner any, uri string) (text string, ok bool) {
	return t.results.find(owner, uri)
}

// Call answers tools/call.
func (t *Tools) Call(ctx context.Context, c conversation.Call) (json.RawMessage, error) {
	name, ok := wire.String(c.Name)
	if !ok {
		return nil, conversation.InvalidParams("tools/call needs the name of a tool")
	}
	own, ok := t.own[name]
	if !ok {
		own, ok = t.own[t.catalog.Unprefixed(name)]
	}
	if ok {
		return t.callOwn(ctx, own, &call{Call: c})
	}
	began := time.Now()
	tool, ok := t.catalog.Listed(name)
	var err error
	if !ok {
		tool, err = t.find(ctx, name, c.From)
	}
	switch {
	case err == nil:
		one := &call{Call: c}
		result, err := t.runner.router.Execute(ctx, t.runner.callOf(one, tool, c.Args))
		return t.runner.finish(one, tool, result, err)
	case errors.Is(err, session.ErrNotSent):
		return t.reporter.unreached(name, err, &call{Call: c}, began), nil
	case errors.As(err, new(*session.Error)), ctx.Err() != nil:
		return nil, err
	}
	err = conversation.InvalidParams(t.catalog.View().Names.AsListed(err).Error())
	t.reporter.unknown(name, err, &call{Call: c}, began)
	return nil, err
}

// find returns the tool of the name. If its server was never listed and needs a login, the
// client's person is asked to log in. The error is that of the catalog, or says why there is no
// login: a [*session.Error] is for the client as it is.
func (t *Tools) find(ctx context.Context, name string, from session.Client) (*registry.NormalizedTool, error) {
	tool, err := t.catalog.Tool(ctx, name)
	if !errors.Is(err, session.ErrNotSent) {
		return tool, err
	}
	helps, why := t.router.LogIn(ctx, from, err)
	switch {
	case !helps:
		return nil, err
	case why != nil:
		return nil, why
	}
	return t.catalog.Tool(ctx, name)
}

// callOwn runs one of our own tools, in a span if there is a tracer. The observer is
// notified unless a server's tool was executed: then it was notified of that.
func (t *Tools) callOwn(ctx context.Context, own ownTool, c *call) (json.RawMessage, error) {
	began := time.Now()
	ctx, span := execute.StartSpan(ctx, t.tracer, "tools/call", own.Name, c.Meta)
	c.tracedBy(span)
	result, err := t.runOwn(ctx, own, c.Args, c)
	t.reporter.ended(own, c, began, span, result, err)
	return result, err
}

// How many bytes of arguments our own tools take, besides those that they pass on to another tool.
const (
	maxOwnArguments = 64 << 10
	maxClassified   = 1 << 20 // classify_text
)

// most returns how many bytes of arguments the tool takes.
func (o ownTool) most() int {
	if o.Name == "classify_text" {
		return maxClassified
	}
	return maxOwnArguments
}

// runOwn runs one of our own tools if it is known that its arguments fit the tool's schema.
func (t *Tools) runOwn(ctx context.Context, own ownTool, args json.RawMessage, c *call) (json.RawMessage, error) {
	began := time.Now()
	if len(args) == 0 {
		args = json.RawMessage("{}")
	}
	var form *callForm
	if own.calls() && !isPlain(args) {
		if f := formOf(args, t.knows); !f.asDocumented() {
			form, args = &f, wire.AddMember(json.RawMessage("{}"), "tool", f.tool)
		}
	}
	// A model may write the arguments of the inner tool as a string, such as
	// {"tool":"a__b","arguments":"{\"n\":1}"}. Our schema asks for an object, so {} stands
	// for the string during the check. Execute gets the string: it repairs it and says so. It
	// also compares a large object with the schema of the inner tool.
	inner := wire.Member(args, "arguments")
	if n := len(args) - len(inner); n > own.most() {
		return t.refuse(own, c, began, "do not fit", fmt.Sprintf("arguments: they have %d bytes, at most %d are allowed; send less", n, own.most()))
	}
	_, hidden := wire.String(inner)
	if hidden = hidden || wire.IsObject(inner) && len(inner) > maxOwnArguments; hidden {
		args = wire.SetMember(args, "arguments", []byte("{}"))
	}
	args, fault, how := unalias(own.Name, args)
	checked := t.router.Check(ctx, own.NormalizedTool, args)
	switch {
	case fault != "":
		return t.refuse(own, c, began, "do not fit", fault)
	case checked.Unchecked:
		return t.refuse(own, c, began, "could not be compared with", append(checked.Faults, "arguments: send less, or try again")...)
	case len(checked.Faults) > 0:
		return t.refuse(own, c, began, "do not fit", checked.Faults...)
	}
	fixed := checked.Arguments
	if c.repair(how, checked.Repaired); hidden {
		fixed = wire.SetMember(fixed, "arguments", inner)
	}
	c.form = form
	result, err := own.run(ctx, fixed, c)
	if err != nil || c.executed {
		return result, err
	}
	return withNew(result, t.reporter.meta(own, c, began, true)), nil
}

// refuse answers a call of one of our own tools that is not run, since its arguments do not fit the
// schema, or could not be compared with it.
func (t *Tools) refuse(own ownTool, c *call, began time.Time, what string, problems ...string) (json.RawMessage, error) {
	meta := t.reporter.meta(own, c, began, false)
	if c.Plain {
		return nil, mismatched(own.NormalizedTool, what, problems, meta)
	}
	return withNew(failure("%s: the arguments %s the schema.\n- %s\nThe schema: %s", own.Name, what, strings.Join(problems, "\n- "), own.InputSchema), meta), nil
}

// What call_tool and call_read_only_tool take.
type callArguments struct {
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments"`
}

// calls reports whether the tool runs the tool that its arguments name.
func (o ownTool) calls() bool { return o.Name == "call_tool" || o.Name == "call_read_only_tool" }

// callerFor returns the handler of one of our own tools that run the tool that their arguments name.
func (t *Tools) callerFor(own string) ownHandler {
	return func(ctx context.Context, args json.RawMessage, c *call) (json.RawMessage, error) {
		return t.callNamed(ctx, args, c, own)
	}
}

func (t *Tools) callNamed(ctx context.Context, args json.RawMessage, c *call, own string) (json.RawMessage, error) {
	began := time.Now()
	var a callArguments
	if err := json.Unmarshal(args, &a); err != nil {
		return failure("%s: %v", own, err), nil
	}
	tool, err := t.find(ctx, a.Tool, c.From)
	if errors.As(err, new(*session.Error)) {
		return nil, err
	} else if err != nil {
		return failure("%v", err), nil
	}
	if own == "call_read_only_tool" && !tool.Reads() {
		return mayWrite(tool), nil
	}
	if c.form != nil {
		check := func(args json.RawMessage) selector.Checked { return t.router.Check(ctx, tool, args) }
		args, how, fault := c.form.arguments(own, tool, check)
		if fault != "" {
			return t.refuse(t.own[own], c, began, "do not fit", fault)
		}
		a.Arguments = args
		c.repair(how)
	}
	return t.runner.run(ctx, tool, a.Arguments, c)
}

// mayWrite is the answer to a call of call_read_only_tool for another tool.
func mayWrite(tool *registry.NormalizedTool) json.RawMessage {
	if tool.Hints.IsReadOnly() {
		return failure("%s was not run: its server declares that it only reads (readOnlyHint), but %s. Use call_tool to run it. "+
			"A person who knows that the declaration is right can write \"trustHints\": true in the entry of %s, or confirm hints that changed with 'metarouter trust --hints %[3]s'.",
			tool.ID, tool.Doubt, tool.Server)
	}
	return failure("%s was not run: its server does not declare that it only reads (readOnlyHint). Use call_tool to run it.", tool.ID)
}
