// Package tools answers tools/call: it runs the tools of servers and the router's
// own tools, which find, describe and run the others.
//
//	Tools.Call ─▶ runner.run ─▶ Router.Execute          a tool of a server
//	          └─▶ Tools.callOwn ─▶ finder, taskRouter, …    one of our own tools
//
// A runner runs a tool of a server for a client; all ways to run one use it. A
// finder finds and describes, a taskRouter selects and runs, a reporter says in
// _meta and to the observer how our own tools ran. Long results are cut to the
// server's limit; results keeps the rest for the client that got them.
package tools

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/mcp-metarouter/metarouter/internal/classify"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/selector"
	"github.com/mcp-metarouter/metarouter/server/internal/budget"
	"github.com/mcp-metarouter/metarouter/server/internal/catalog"
	"github.com/mcp-metarouter/metarouter/server/internal/conversation"
)

// A Router finds and runs tools, as [adapter.Router] does.
type Router interface {
	catalog.Source
	selector.Provider

	Find(ctx context.Context, q selector.Query) (selector.Ranking, error)

	// Classifier sorts texts into categories.
	Classifier() *classify.Classifier

	// LogIn begins a login if err, by which a request of the client has failed, says that one is
	// needed. It reports false if a login would not help. With a nil error, a person has logged in. Errors
	// wrap [session.ErrNotSent] if they are no [*session.Error].
	LogIn(ctx context.Context, from session.Client, err error) (bool, error)
}

// Savings counts how many tokens clients were spared. Its methods are called by many goroutines
// at once, and must not block.
type Savings interface {
	ListSpared(tokens int)   // in search mode: a list of all tools would have been so much longer
	ResultSpared(tokens int) // a result was so much longer than the part of it that was shown
}

// Options say how tools are called. Observer, Tracer, Savings and Scripts may be nil.
type Options struct {
	Router  Router
	Catalog *catalog.Catalog
	Tasks   catalog.Tasks
	Node    string // this machine, as in node_id
	Version string // of the router

	Settings func() Settings // returns the settings in force

	Observer selector.Observer // notified of calls
	Tracer   trace.Tracer      // makes spans of the calls of our own tools
	Savings  Savings           // counts the tokens that clients were spared
	Scripts  Scripts           // runs scripts; nil: there is no run_script

	// Both are common to the servers of one router.
	Budget *budget.Budget
	Kept   *Kept
}

// Settings may change while the router runs.
type Settings struct {
	RouteThreshold float64 // confidence below which route_task runs no tool by itself
	Profile        string  // the names of the profiles that limit the clients, for the observer and in spans
	Code           bool    // the mode is "code"
	Scripts        bool    // clients may run scripts
	Direct         bool    // clients are shown all tools
}

// Tools answers tools/call. Its methods may be called by many goroutines at once.
type Tools struct {
	*Options
	*runner
	own      map[string]ownTool
	reporter *reporter
	results  *results
}

// A toolCall is a client's call of a tool, of a server or our own. The embedded call knows the
// parameters, the request and the client.
type toolCall struct {
	conversation.Call
	executed bool   // a server's tool was executed, which has put _meta into the result and notified the observer
	trace    string // the id of the trace of one of our own tools, which may be ""
	declares bool   // find_tools and describe_tools answer with declarations
	repaired string // the repairs of the arguments of one of our own tools
	began    time.Time
}

// New returns the tools of a router.
func New(o Options) *Tools {
	t := &Tools{
		Options: &o, own: make(map[string]ownTool), reporter: &reporter{&o},
		results: &results{kept: o.Kept, exists: func(tool string) bool {
			_, ok := o.Router.Snapshot().Tool(tool)
			return ok || tool == scriptTool && o.Settings().Scripts
		}},
	}
	t.runner = &runner{Options: &o, results: t.results, held: held{byID: make(map[string]*heldScript)}}
	found := &finder{&o}
	routes := &taskRouter{&o, t.runner, found}
	handlers := map[string]ownHandler{
		"find_tools":     handler("find_tools", found.find),
		"describe_tools": handler("describe_tools", found.describe),
		"route_task":     handler("route_task", routes.route),
		"read_result":    handler("read_result", t.results.read),
		"list_categories": func(context.Context, json.RawMessage, *toolCall) (json.RawMessage, error) {
			return answer(o.Router.Classifier().Categories()), nil
		},
		"classify_text": handler("classify_text", t.classifyText),
	}
	for _, name := range []string{"call_tool", "call_read_only_tool"} {
		handlers[name] = handler(name, func(ctx context.Context, a callArguments, c *toolCall) (json.RawMessage, error) {
			return t.callNamed(ctx, a, c, name)
		})
	}
	if o.Scripts != nil {
		handlers["run_script"] = handler("run_script", t.runScript)
	}
	for _, own := range Own() {
		if run := handlers[own.Name]; run != nil {
			t.own[own.Name] = ownTool{own, run}
		}
	}
	return t
}

// Forget drops all that is kept for a client that has left; see Owner of
// [conversation.Request].
func (t *Tools) Forget(owner any) {
	t.results.kept.forget(func(k *keptText) bool { return k.owner == user{t.results, owner} })
	t.results.links.forget(func(of any) bool { return of == owner })
	t.runner.held.leave(func(h *heldScript) bool { return h.owner == owner })
}

// Abandon ends the held scripts of these clients without a session.
func (t *Tools) Abandon(those func(conversation.Identity) bool) {
	t.runner.held.leave(func(h *heldScript) bool { return h.owner == h.who.Principal && those(h.who) })
}

// Close ends the held scripts, and waits for them.
func (t *Tools) Close() {
	t.runner.held.leave(func(*heldScript) bool { return true })
	t.runner.held.running.Wait()
}

// Clear drops all that is kept for clients.
func (t *Tools) Clear() {
	t.results.kept.forget(func(k *keptText) bool { return k.owner.server == t.results })
	t.results.links.forget(func(any) bool { return true })
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
		return nil, session.InvalidParams("tools/call needs the name of a tool")
	}
	own, ok := t.own[name]
	if !ok {
		own, ok = t.own[t.Catalog.Unprefixed(name)]
	}
	call := &toolCall{Call: c, began: time.Now()}
	if settings := t.Settings(); ok && settings.Allows(own.Name) && t.Catalog.IsOwn(own.Name) {
		call.declares = settings.Code
		return t.callOwn(ctx, own, call)
	}
	tool, err := t.runner.find(ctx, name, c.From)
	switch {
	case err == nil:
		return t.runner.run(ctx, tool, c.Args, call)
	case !errors.Is(err, session.ErrNotSent) && (errors.As(err, new(*session.Error)) || ctx.Err() != nil):
		return nil, err
	}
	return t.reporter.unanswered(name, err, call)
}
