package execute

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/mcp-metarouter/metarouter/internal/login"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/signal"
	"github.com/mcp-metarouter/metarouter/registry"
)

const (
	// StartWait is how long a call waits for its server to start: less than the minute after which common clients give up.
	StartWait = 45 * time.Second

	// maxAttempts bounds the attempts at one target.
	maxAttempts = 3

	// retryPause is how long a call waits before it is sent again, at first; twice as long each further time.
	retryPause = 100 * time.Millisecond
)

// A delivery is a request on its way to one server. A failover turns it to another server. It belongs to one goroutine.
type delivery struct {
	e        *Executor
	from     session.Client  // nil for the router itself
	meta     json.RawMessage // for the server's _meta, without our span
	attempts int             // at all servers

	tool      *registry.NormalizedTool // nil if the request is no call
	server    string
	service   string   // of which the server is a replica; "" for other servers
	avoid     []string // replicas that were tried
	what      string   // the tool or method of the request, for errors
	policy    Policy   // of the server
	startWait time.Duration
	request   session.Request
	permit    *permit         // nil until the call is admitted
	session   session.Session // of the last attempt; nil if it got no session
	tries     int             // attempts at this server
	sent      int             // attempts at this server in which the request was sent
	deadline  time.Time       // of all tries; zero until the first is sent
	span      trace.Span      // of the attempt in progress; nil without a tracer
}

// pauseForRetry reports whether the request is to be sent to the same target again. If so, it has waited for the pause before the retry.
func (d *delivery) pauseForRetry(ctx context.Context, err error) bool {
	if d.session == nil || d.tries == maxAttempts || ctx.Err() != nil || !d.mayRepeat(err) {
		return false
	}
	if errors.As(err, new(*login.NeededError)) || errors.Is(err, session.ErrForbidden) {
		return false // the server refuses it until a person has logged in, or for good
	}
	if errors.Is(err, session.ErrNotSent) { // the next session may be up
		return true
	}
	wait := retryPause << (d.tries - 1)
	return !signal.Within(ctx.Done(), wait/2+rand.N(wait))
}

// mayRepeat reports whether a request that ended with err may be sent again: it had no effect, or a second one does no harm.
func (d *delivery) mayRepeat(err error) bool {
	return errors.Is(err, session.ErrNotSent) || d.repeatable() && errors.Is(err, session.ErrClosed)
}

// repeatable reports whether the request may take effect twice.
func (d *delivery) repeatable() bool {
	return d.tool != nil && (d.policy.Retry == AlwaysRetry || d.policy.Retry == IfHarmless && d.tool.Repeatable())
}

// admit waits until the server's limiter and circuit breaker let the call through.
func (d *delivery) admit(ctx context.Context) (err error) {
	if d.permit != nil { // a retry keeps it
		return nil
	}
	if d.permit, err = d.e.limiters.of(d.server).acquire(ctx, d.server, d.policy.MaxConcurrent); err != nil {
		return err
	}
	if d.from != nil { // the server asks the client through the permit, which is released then
		d.permit.Client = d.client()
		d.request.From = d.permit
	}
	return nil
}

// leaveServer has the circuit breaker count how the call ended, and releases the permit.
func (d *delivery) leaveServer(ctx context.Context, err error) {
	if d.permit == nil {
		return
	}
	if d.policy.Gateway == "" || !errors.Is(err, session.ErrClosed) { // that a node was lost says nothing of it once it is back
		d.permit.limiter.recordOutcome(ctx, err, d.permit.asked.Load())
	}
	d.releasePermit()
}

// releasePermit releases the call's permit if it has one.
func (d *delivery) releasePermit() {
	if d.permit != nil {
		d.permit.release()
		d.permit = nil
	}
}

// startAttempt counts an attempt. With a tracer, the attempt has a span of its own, and the server sees that span as its caller.
func (d *delivery) startAttempt(ctx context.Context) context.Context {
	d.attempts++
	d.tries++
	d.session = nil
	if d.policy.Gateway != "" {
		d.request.Ran = new(session.Run) // a new one: the session of the last attempt may still have the old one
	}
	if d.e.Tracer == nil {
		return ctx
	}
	target := ""
	if d.request.Method == toolsCall {
		target = d.what
	}
	ctx, d.span = d.e.Tracer.Start(ctx, spanName(d.request.Method, target),
		trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(naming(d.request.Method, target)...))
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	d.request.Meta = session.TraceContext{Parent: carrier["traceparent"], State: carrier["tracestate"]}.Into(d.meta)
	return ctx
}

// acquireSession waits for the server's session: for startWait, and after an attempt that was sent no longer than its deadline. The call's own time
// limit does not bound the first wait, since a server may take longer to start than to answer.
func (d *delivery) acquireSession(ctx context.Context) error {
	limit := d.startWait
	if !d.deadline.IsZero() {
		limit = min(limit, time.Until(d.deadline))
	}
	waiting, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	s, err := d.e.Sessions.Session(waiting, d.server, d.request.From)
	if err != nil {
		if ctx.Err() == nil && waiting.Err() != nil {
			return fmt.Errorf("%w; waited %s for it, try again in a minute", err, max(0, limit).Round(time.Millisecond))
		}
		return err
	}
	d.session = s
	return nil
}

// send sends the request, and waits for the result until the deadline of all attempts.
func (d *delivery) send(ctx context.Context) (raw json.RawMessage, err error) {
	timeout, pattern := d.policy.timeout(d.tool)
	if timeout > 0 && d.deadline.IsZero() {
		d.deadline = time.Now().Add(timeout)
	}
	limited := ctx
	if timeout > 0 {
		var cancel context.CancelFunc
		limited, cancel = context.WithDeadline(ctx, d.deadline)
		defer cancel()
	}
	if ctx.Err() != nil { // while it waited
		return nil, context.Cause(ctx)
	}
	if err = session.Sending(d.from, d.request.Repeatable); err == nil {
		raw, err = d.session.Call(limited, d.request)
	}
	if !errors.Is(err, session.ErrNotSent) {
		d.sent++
	}
	switch { // whether it was sent or not: no time is left for another attempt
	case err == nil:
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case timeout > 0 && !time.Now().Before(d.deadline):
		return nil, &timeoutError{d.server, d.what, timeout, pattern, errors.Is(err, session.ErrOpenEvent)}
	}
	if errors.Is(err, session.ErrClosed) {
		fate := session.ErrUnknown
		if d.repeatable() {
			fate = fmt.Errorf("times it was sent: %d", d.sent)
		}
		return nil, fmt.Errorf("server %q ended during the call: %w; %w", d.server, err, fate)
	}
	if d.service != "" && err == nil {
		d.keep()
		raw = d.mark(raw)
	}
	return raw, err
}

// endAttempt ends the span of an attempt.
func (d *delivery) endAttempt(raw json.RawMessage, err error) {
	if d.span == nil || !d.span.IsRecording() {
		return
	}
	d.span.SetAttributes(keyServer.String(d.server), keyAttempt.Int(d.attempts))
	if d.session != nil {
		info := d.session.Info()
		network := "pipe"
		if info.Remote {
			network = "tcp"
		}
		d.span.SetAttributes(keyRevision.String(info.ProtocolVersion), keyNetwork.String(network))
	}
	if theirs, ok := errors.AsType[*session.Error](err); ok {
		d.span.SetAttributes(keyCode.String(strconv.FormatInt(theirs.Code, 10)))
	}
	endSpan(d.span, errorType(raw, err))
}

// A timeoutError says that a call took longer than it may.
type timeoutError struct {
	server, what string
	limit        time.Duration
	pattern      string // that set the limit, "" if it is the server's
	open         bool   // see [session.ErrOpenEvent]
}

func (e *timeoutError) Error() string {
	where := `"timeout" can be set in its entry`
	if e.pattern != "" {
		where = fmt.Sprintf(`time can be set in its entry, in "tools", "timeout", %q`, e.pattern)
	}
	if e.open {
		return fmt.Sprintf("server %q did not answer %s within %s, and the call was cancelled: %v", e.server, e.what, e.limit, session.ErrOpenEvent)
	}
	return fmt.Sprintf("server %q did not answer %s within %s, and the call was cancelled; a longer %s", e.server, e.what, e.limit, where)
}
