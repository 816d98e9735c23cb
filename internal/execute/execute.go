// Package execute runs tools. [Executor.Execute] is the path of every call: policy,
// check, cache, then for each attempt the limiter and circuit breaker, the session and
// the request, and at the end the result with our keys in its _meta.
//
// A result stays the server's bytes but for _meta. A call that may have taken effect is repeated only where the policy or the tool's hints allow it.
package execute

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/internal/content"
	"github.com/mcp-metarouter/metarouter/internal/prose"
	"github.com/mcp-metarouter/metarouter/internal/rate"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/registry"
)

// Options configure an Executor. Registry and Log must be set.
type Options struct {
	Registry *registry.Registry // for stand-ins, and for the versions of servers
	Sessions Sessions
	Node     func() string // names this router in results; nil or "" is [Node]
	Observer Observer      // may be nil
	Tracer   trace.Tracer  // may be nil
	Log      *zap.Logger
}

// An Executor runs tools. Its methods may be called by many goroutines at once.
type Executor struct {
	Options
	schemas  schemas
	limiters limiters
	cache    cache
	rates    rate.Limiter // of tools by principal
	kept     kept
	repairs  repairs
}

// New returns an Executor.
func New(o Options) *Executor {
	host, named := Node(), o.Node
	o.Node = func() string {
		if named == nil {
			return host
		}
		return cmp.Or(named(), host)
	}
	return &Executor{Options: o, schemas: newSchemas(o), repairs: repairs{log: o.Log}}
}

// Execute runs a tool. A failure of the tool, or of the way to it, is a Result with IsError that explains the failure and the remedy. The error is a
// [*session.Error] if the server answered with one, or the cause of ctx's end.
func (e *Executor) Execute(ctx context.Context, c Call) (Result, error) {
	ctx, x := begin(ctx, e, c)
	d := &x.delivery
	defer d.releasePermit()
	d.policy = e.Sessions.Policy(c.Tool.Server)
	if err := x.resume(); err != nil {
		return x.report(Result{}, err)
	}
	if faults := x.checkArguments(ctx); len(faults) > 0 {
		return x.report(x.refuse(faults), nil)
	}
	if err := takeRate(&e.rates, c.Tool, &d.policy, c.Principal); err != nil {
		return x.report(x.fail(err.Error(), err), nil)
	}
	if c.Approve != nil {
		if err := c.Approve(ctx, x.sent); err != nil {
			return x.report(x.failed(ctx, unapproved{err}, err.Error()))
		}
	}
	key, cacheable := x.cacheKey()
	if cacheable {
		if raw, ok := e.cache.find(key); ok {
			x.cached = true
			return x.report(x.addMeta(raw), nil)
		}
	}

	x.targets = e.targets(&c, d.policy)
	x.addReplicas()
	var err error
	// After a failure, nextAttempt does more than decide: it pauses before a retry on the same server, or it leaves the server (the circuit breaker
	// counts, the permit is released) and turns to a stand-in.
	for x.nextAttempt(ctx, err) || x.afterLogin(ctx, &err) {
		if err = d.admit(ctx); err != nil { // limiter and circuit breaker
			continue
		}
		var raw json.RawMessage
		attempt := d.startAttempt(ctx)
		if err = d.acquireSession(attempt); err == nil {
			raw, err = d.send(attempt)
		}
		if d.endAttempt(raw, err); err != nil {
			continue
		}
		d.leaveServer(ctx, nil)
		result := x.addMeta(raw)
		if cacheable && d.tool == c.Tool && !result.IsError && !content.IsPending(raw) {
			e.cache.keep(key, raw, d.policy.Cache, d.session.Done())
		}
		return x.report(result, nil)
	}
	if theirs, ok := errors.AsType[*session.Error](err); ok {
		return x.report(Result{}, theirs)
	}
	return x.report(x.failed(ctx, err, strings.Join(x.faults, "; ")))
}

// Relay sends another request to a server, once its session is up, and returns the server's result, unchanged but for repairs of its content. The
// error wraps a [*session.Error], the server's own or one that says why there is no answer and wraps the reason too, or is the cause of ctx's end.
func (e *Executor) Relay(ctx context.Context, server string, r session.Request) (json.RawMessage, error) {
	ctx, span := StartSpan(ctx, e.Tracer, r.Method, "", r.Meta)
	d := delivery{e: e, from: r.From, meta: r.Meta, policy: e.Sessions.Policy(server), request: r, server: server, what: r.Method, startWait: StartWait}
	var raw json.RawMessage
	next := d.pauseForRetry
	if d.policy.Service != nil && !r.Here {
		var err error
		if next, err = d.relayToReplica(); err != nil {
			return nil, err
		}
	}
	var err error
	for first := true; first || err != nil && next(ctx, err); first = false {
		attempt := d.startAttempt(ctx)
		if err = d.acquireSession(attempt); err == nil {
			raw, err = d.send(attempt)
		}
		d.endAttempt(raw, err)
	}
	if span.IsRecording() {
		endSpan(span, errorType(raw, err))
	}
	if err == nil {
		return e.repairs.content(server, r.Method, raw), nil
	}
	if _, ok := errors.AsType[*session.Error](err); ok {
		return raw, err
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return nil, &relayError{session.Error{Code: session.CodeInternal, Message: err.Error()}, err}
}

// A relayError is why a request other than a call has no answer.
type relayError struct {
	answer session.Error // that the client gets
	cause  error
}

func (e *relayError) Error() string   { return e.answer.Error() }
func (e *relayError) Unwrap() []error { return []error{&e.answer, e.cause} }

// An execution is one call on its way. It belongs to one goroutine.
type execution struct {
	e     *Executor
	call  Call
	span  trace.Span
	trace string // the ID of the trace
	began time.Time

	args     json.RawMessage // of the client, repaired
	sent     json.RawMessage // as the tool's server gets them
	object   wire.Object     // sent, read whole
	repaired string          // the repairs of the arguments and of the result
	argued   bool            // the arguments were repaired
	fits     bool            // the arguments were compared with the tool's schema to the end, and fit it
	checked  bool            // the same for the tool in use, which may be a stand-in
	cached   bool            // the result is from the cache

	targets  []target
	only     string   // the replica of a service that must take the call; "" is any
	loggedIn bool     // LogIn of the call was called
	tried    int      // targets that were tried, the one in use included
	faults   []string // the failure at each target

	delivery delivery // to the target in use
}

// begin begins an execution, and its span.
func begin(ctx context.Context, e *Executor, c Call) (context.Context, *execution) {
	x := &execution{e: e, call: c, began: time.Now()}
	x.delivery = delivery{e: e, from: c.From, meta: c.Meta, tool: c.Tool}
	ctx, x.span = StartSpan(ctx, e.Tracer, toolsCall, c.Tool.ID, c.Meta)
	if id := x.span.SpanContext().TraceID(); id.IsValid() {
		x.trace = id.String()
	} else {
		x.trace = traceID(c.Meta)
	}
	return ctx, x
}

// report ends the span and notifies the observer of how the call ended. It returns its arguments.
func (x *execution) report(r Result, err error) (Result, error) {
	o := x.e.Observer
	if o == nil && !x.span.IsRecording() {
		return r, err
	}
	e := Execution{
		Tool: x.call.Tool, Answered: r.Tool, Client: x.call.Client, Principal: x.call.PrincipalName, Profile: x.call.Profile, Trace: x.trace, Script: x.call.Script, Began: x.began, Took: time.Since(x.began),
		Attempts: x.delivery.attempts, Arguments: x.call.Arguments, Result: r.JSON, Cached: x.cached,
	}
	if x.argued {
		e.Arguments = x.args
	}
	e.Outcome, e.Fault = OutcomeOf(r, err)
	EndSpan(x.span, e, err)
	if o != nil {
		o.Executed(e)
	}
	return r, err
}

// checkArguments sets the arguments to send, or returns their faults.
func (x *execution) checkArguments(ctx context.Context) (faults []string) {
	c := &x.call
	checked := c.Checked
	switch off := x.delivery.policy.Validate == Off && wire.IsObject(orEmpty(c.Arguments)); {
	case off:
		now := unchecked(c.Tool, x.e.schemas.of(c.Tool), c.Arguments)
		checked = &now
	case checked == nil || checked.tool != c.Tool:
		now := x.e.Check(ctx, c.Tool, c.Arguments)
		checked = &now
	}
	x.args, x.sent, x.fits = checked.Arguments, checked.Sent, checked.passed()
	x.repaired = prose.Clauses(c.Repaired, checked.Repaired)
	x.argued = x.repaired != ""
	x.e.repairs.count(c.Tool.Server, "arguments", x.repaired)
	x.checked = x.fits
	switch faults = checked.Faults; {
	case checked.Unchecked && !x.delivery.policy.MustCheck: // the server gets them as they are, and the result says so
		faults = nil
	case len(faults) == 0 && checked.partial && x.delivery.policy.MustCheck && x.delivery.policy.Validate == Strict:
		faults = []string{"arguments: it is not known whether they fit: the schema has a regular expression that Go does not know, such as one with look-around"}
	case len(faults) > 0 && !checked.refused && x.delivery.policy.Validate == Warn && wire.IsObject(x.args):
		x.e.Log.Warn("arguments do not fit the schema", zap.String("tool", c.Tool.ID), zap.Int("faults", len(faults)))
		faults = nil
	}
	if len(faults) == 0 {
		var err error
		if x.object, err = wire.ParseObject(x.sent); err != nil {
			faults = []string{"arguments: " + err.Error()}
		}
	}
	return faults
}

// An unapproved error is why a call is not made; see Approve of [Call].
type unapproved struct{ error }

func (e unapproved) Unwrap() error { return e.error }

// failed returns the answer, with a text, to a call that no tool answered because of err.
func (x *execution) failed(ctx context.Context, err error, text string) (Result, error) {
	if ctx.Err() != nil {
		return Result{}, context.Cause(ctx)
	}
	return x.fail(text, err), nil
}

// callParams returns the parameters for the server: its own name of the tool, the
// arguments, and the other members that the client sent. They are the bytes that are sent, which another node signs.
func callParams(c *Call, tool string, args wire.Object) json.RawMessage {
	b := make([]byte, 0, len(args.Bytes())+len(c.Params)+64)
	b = wire.AppendString(append(b, `{"name":`...), tool)
	b = wire.AppendMember(b, "arguments", args.Bytes())
	if others := c.Others(); others != nil {
		b = append(append(b, ','), others[1:len(others)-1]...)
	}
	if b = append(b, '}'); wire.HasLineEnd(b) {
		if o, err := wire.ParseObject(b); err == nil { // else the session refuses them
			return o.Bytes()
		}
	}
	return b
}
