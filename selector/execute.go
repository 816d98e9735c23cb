package selector

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/session"
)

// Sessions is what execution needs of whoever keeps the servers alive.
type Sessions interface {
	// Session returns the server's live session. It waits while the server is
	// starting, until ctx ends; its errors wrap session.ErrNotSent and say what
	// state the server is in and why.
	// from is the client that it is for, nil for the router itself: a server that
	// asks things of its client may have a session of its own for it.
	Session(ctx context.Context, server string, from session.Client) (session.Session, error)

	// Policy says how calls to the server are made.
	Policy(server string) Policy
}

// A Policy says how calls to one server are made. The zero value sets no
// deadline and validates.
type Policy struct {
	Timeout       time.Duration // of one call, its repetitions included; 0 is none
	Validate      Validate
	MaxConcurrent int // calls under way at once, beyond which others wait; 0 is any number
	Retry         Retry
	StandIns      []string // servers that may take its calls where it can't, the best first
	Twins         []string // likewise, but only for tools that only read: the same server, run twice

	// Cache is how long results are given again, of tools that declare to only read
	// and to be idempotent; 0 is never.
	Cache time.Duration

	// MaxResultTokens is how much of a result's text a client is to get at once, unless
	// the tool declares that it may be more (anthropic/maxResultSizeChars); 0 is all.
	MaxResultTokens int

	// For some of its tools, instead of Timeout and MaxResultTokens, by patterns as in
	// path.Match over the server's own names; see [forTool].
	Timeouts     map[string]time.Duration
	ResultTokens map[string]int
}

// forTool returns what the patterns say of a tool, and which of them does, "" if
// none matches. Of several its own name counts, else the longest, and of equally long
// ones the first in the alphabet.
func forTool[T any](patterns map[string]T, tool string) (value T, pattern string) {
	if v, ok := patterns[tool]; ok {
		return v, tool
	}
	for p, v := range patterns {
		if ok, _ := path.Match(p, tool); ok && (len(p) > len(pattern) || len(p) == len(pattern) && p < pattern) {
			value, pattern = v, p
		}
	}
	return value, pattern
}

// timeout returns the time that a call may take, of a tool unless t is nil, and the
// pattern that says so, if one does.
func (p *Policy) timeout(t *registry.NormalizedTool) (limit time.Duration, pattern string) {
	if t != nil {
		limit, pattern = forTool(p.Timeouts, t.ServerName())
	}
	if pattern == "" {
		limit = p.Timeout
	}
	return limit, pattern
}

// Retry says whether a call is made again whose server ended while it was under
// way, so that nobody knows whether it took effect.
type Retry int

const (
	IfHarmless  Retry = iota // if the server declares the tool read-only or idempotent
	NeverRetry               // not even then
	AlwaysRetry              // whatever the tool does
)

// Validate says what becomes of arguments that do not fit the tool's schema.
type Validate int

const (
	Strict Validate = iota // answered with a tool error; the server is not called
	Warn                   // logged; the server is called
	Off                    // not looked at
)

// A Call is one execution of one tool.
type Call struct {
	Tool      *registry.NormalizedTool
	Arguments json.RawMessage // a JSON object; nil is {}

	// From is the client on whose behalf the tool runs; nil for the router's own.
	From session.Client

	// Params are the tools/call parameters of the client that asks, if one does:
	// their other members (such as task) are passed on to the server. May be nil.
	Params json.RawMessage

	// Meta is what the server gets in _meta, an object; nil if nothing.
	Meta json.RawMessage

	// Client is the name that whoever asks gives itself, for observers; "" if unknown.
	Client string
}

const (
	// StartWait is how long a call waits for its server to start: less than the
	// minute after which common clients give up.
	StartWait = 45 * time.Second
	// maxAttempts bounds how often a call that could not be sent is tried.
	maxAttempts = 3
)

func (s *Selector) execute(ctx context.Context, run *run, c Call) (Result, error) {
	policy := s.sessions.Policy(c.Tool.Server)
	args, faults := s.admit(run, policy.Validate, c)
	if len(faults) > 0 {
		return run.refuse(faults), nil
	}
	key, caches := cacheKey{}, false
	if policy.Cache > 0 {
		key, caches = cacheKeyOf(c, args)
	}
	if caches {
		if raw, ok := s.cache.find(key); ok {
			run.turn(c.Tool)
			run.cached = true
			return s.answered(run, raw, policy), nil
		}
	}
	var last error
	for _, next := range s.choices(c.Tool, policy) {
		run.turn(next.tool)
		policy, args := policy, args // of this choice
		if next.tool != c.Tool {
			policy = s.sessions.Policy(next.tool.Server)
			fitting, wrong := s.Fit(next.tool, args)
			if len(wrong) > 0 {
				faults = append(faults, next.tool.ID+" takes other arguments: "+wrong[0])
				continue
			}
			args = fitting
		}
		raw, err := s.pass(ctx, run, next, policy, c, args)
		switch refused, ok := errors.AsType[*session.Error](err); {
		case err == nil:
			r := s.answered(run, raw, policy)
			if caches && next.tool == c.Tool && !r.IsError && isFinal(raw) {
				s.cache.keep(key, raw, policy.Cache, run.session.Done())
			}
			return r, nil
		case ok:
			return Result{}, refused
		case ctx.Err() != nil:
			return Result{}, context.Cause(ctx)
		}
		last = err
		if fault := err.Error(); !slices.Contains(faults, fault) {
			faults = append(faults, fault)
		}
		if !run.mayRepeat(err) {
			break
		}
	}
	r := run.fail(strings.Join(faults, "; "))
	r.Err = last
	return r, nil
}

// answered returns the result of the tool whose turn it is.
func (s *Selector) answered(run *run, raw json.RawMessage, p Policy) Result {
	r := run.finish(raw)
	r.Limit = resultLimit(run.tool, p)
	return r
}

// isFinal reports whether the result is what was asked for: not a task that will
// have it, nor a question to the client.
func isFinal(raw json.RawMessage) bool {
	kind := wire.Member(raw, "resultType")
	return kind == nil || string(kind) == `"complete"`
}

// BytesPerToken is how many bytes of JSON or text are counted as a token.
const BytesPerToken = 4

// ListTokens returns what a list of the tools costs a model.
func ListTokens(tools []*registry.NormalizedTool) int {
	bytes := 0
	for _, t := range tools {
		bytes += len(t.Definition)
	}
	return bytes / BytesPerToken
}

// resultLimit returns how many tokens of the tool's text a client is to get at once.
func resultLimit(t *registry.NormalizedTool, p Policy) int {
	if limit, pattern := forTool(p.ResultTokens, t.ServerName()); pattern != "" {
		return limit // whatever the tool declares
	}
	if p.MaxResultTokens == 0 {
		return 0
	}
	var declared int
	if json.Unmarshal(wire.Member(wire.Member(t.Definition, "_meta"), "anthropic/maxResultSizeChars"), &declared) != nil {
		return p.MaxResultTokens
	}
	return max(p.MaxResultTokens, declared/BytesPerToken)
}

// pass sends the call to the server of one choice, through its gate.
func (s *Selector) pass(ctx context.Context, run *run, next choice, policy Policy, c Call, args json.RawMessage) (json.RawMessage, error) {
	server := next.tool.Server
	gate := s.gates.of(server)
	leave, err := gate.enter(ctx, server, policy.MaxConcurrent)
	if err != nil {
		return nil, err
	}
	defer leave()
	by := &patron{Client: c.From, leave: leave}
	if c.From != nil {
		c.From = by
	}
	c.Tool = next.tool
	run.again = policy.Retry == AlwaysRetry || policy.Retry == IfHarmless && next.tool.Hints.Repeatable()
	request := session.Request{Method: toolsCall, Params: callParams(c, args), Meta: c.Meta, From: c.From}
	raw, err := s.send(ctx, run, request, server, next.tool.ServerName(), next.patience)
	gate.judge(ctx, err, by.asked.Load())
	return raw, err
}

// Relay sends any other request to a server, once its session is up, and returns
// the server's result as it is. The error is a [*session.Error], the server's own
// or one that says why there is no answer, or the cause of ctx's end.
func (s *Selector) Relay(ctx context.Context, server string, r session.Request) (json.RawMessage, error) {
	ctx, span := StartSpan(ctx, s.tracer, r.Method, "", r.Meta)
	raw, err := s.send(ctx, &run{}, r, server, r.Method, StartWait)
	if span.IsRecording() {
		EndSpan(span, errorType(raw, err))
	}
	if _, ok := errors.AsType[*session.Error](err); err == nil || ok {
		return raw, err
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return nil, &session.Error{Code: session.CodeInternal, Message: err.Error()}
}

// send sends a request, and again if it could not be sent, since the next session
// may be up. what it asks for is named in errors.
func (s *Selector) send(ctx context.Context, run *run, r session.Request, server, what string, wait time.Duration) (json.RawMessage, error) {
	for attempt := 1; ; attempt++ {
		run.attempts++
		raw, err := s.traced(ctx, run, r, server, what, wait)
		if err == nil || attempt == maxAttempts || run.session == nil || ctx.Err() != nil {
			return raw, err
		}
		if !run.mayRepeat(err) || !errors.Is(err, session.ErrNotSent) && !pause(ctx, attempt) {
			return raw, err
		}
	}
}

// mayRepeat reports whether what ended so may be sent again: it had no effect, or
// to have it twice is harmless.
func (r *run) mayRepeat(err error) bool {
	return errors.Is(err, session.ErrNotSent) || r.again && errors.Is(err, session.ErrClosed)
}

// retryPause is how long a call waits before it is made again, at first; twice as
// long each further time.
const retryPause = 100 * time.Millisecond

// pause waits before another attempt, and reports whether there is time for one.
func pause(ctx context.Context, attempts int) bool {
	wait := retryPause << (attempts - 1)
	t := time.NewTimer(wait/2 + rand.N(wait))
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func (s *Selector) attempt(ctx context.Context, run *run, r session.Request, server, what string, wait time.Duration) (json.RawMessage, error) {
	waiting := &patience{Context: ctx, limit: wait}
	defer waiting.end()
	run.session = nil
	sess, err := s.sessions.Session(waiting, server, r.From)
	if err != nil {
		if ctx.Err() == nil && waiting.Err() != nil {
			return nil, fmt.Errorf("%w; waited %s for it, try again in a minute", err, wait)
		}
		return nil, err
	}
	run.session = sess
	policy := s.sessions.Policy(server)
	if timeout, pattern := policy.timeout(run.tool); timeout > 0 {
		if run.until.IsZero() {
			run.until = time.Now().Add(timeout)
		}
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadlineCause(ctx, run.until, &lateError{server, what, timeout, pattern})
		defer cancel()
	}
	raw, err := sess.Call(ctx, r)
	if err != nil && ctx.Err() != nil {
		return nil, context.Cause(ctx) // sent or not: its time is up for all attempts
	}
	if errors.Is(err, session.ErrClosed) {
		fate := "whether the call took effect is unknown, and it is not sent again"
		if run.again {
			fate = fmt.Sprintf("it was sent %d times", run.attempts)
		}
		return nil, fmt.Errorf("server %q ended during the call: %w; %s", server, err, fate)
	}
	return raw, err
}

// A lateError says that a call took longer than it may.
type lateError struct {
	server, what string
	limit        time.Duration
	pattern      string // that set the limit, "" if it is the server's
}

func (e *lateError) Error() string {
	where := `"timeout" can be set in its entry`
	if e.pattern != "" {
		where = fmt.Sprintf(`time can be set in its entry, in "tools", "timeout", %q`, e.pattern)
	}
	return fmt.Sprintf("server %q did not answer %s within %s, and was told to cancel; a longer %s", e.server, e.what, e.limit, where)
}

// A patience is a context with a time-out that begins when somebody first waits
// for its end: most calls never do, and a timer costs as much as the rest of them.
type patience struct {
	context.Context
	limit time.Duration

	mu     sync.Mutex      // guards what follows
	inner  context.Context // nil until then
	cancel context.CancelFunc
}

func (p *patience) Done() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.inner == nil {
		p.inner, p.cancel = context.WithTimeout(p.Context, p.limit)
	}
	return p.inner.Done()
}

func (p *patience) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.inner == nil {
		return p.Context.Err()
	}
	return p.inner.Err()
}

// end gives up the timer. Nobody may wait any more.
func (p *patience) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cancel != nil {
		p.cancel()
	}
}

// Check returns the arguments as they would be sent to the tool's server, and
// what is wrong with them, a sentence for each fault; none if they fit.
func (s *Selector) Check(t *registry.NormalizedTool, args json.RawMessage) (fixed json.RawMessage, faults []string) {
	fixed, _, faults = s.check(t, args)
	return fixed, faults
}

func (s *Selector) check(t *registry.NormalizedTool, args json.RawMessage) (fixed json.RawMessage, how string, faults []string) {
	args = orEmpty(args)
	schema := s.schemas.of(t)
	if wire.IsObject(args) {
		faults = schema.check(args)
	} else {
		faults = []string{"arguments: expected an object"}
	}
	if len(faults) == 0 {
		return args, "", nil
	}
	if fixed, how = schema.repair(args); how != "" {
		return fixed, how, nil
	}
	return args, "", faults
}

// admit returns the arguments to send, or what is wrong with them.
func (s *Selector) admit(run *run, mode Validate, c Call) (args json.RawMessage, faults []string) {
	if args = orEmpty(c.Arguments); mode == Off && wire.IsObject(args) {
		return args, nil
	}
	args, how, faults := s.check(c.Tool, c.Arguments)
	run.repaired = how
	run.verified = len(faults) == 0 && s.schemas.of(c.Tool).schema != nil
	if len(faults) > 0 && mode == Warn && wire.IsObject(args) {
		s.log.Warn("arguments do not fit the schema", zap.String("tool", c.Tool.ID), zap.Int("faults", len(faults)))
		return args, nil
	}
	return args, faults
}

func orEmpty(args json.RawMessage) json.RawMessage {
	if args = bytes.TrimSpace(args); len(args) == 0 || string(args) == "null" {
		return json.RawMessage("{}")
	}
	return args
}

// callParams returns the parameters for the server: its own name of the tool,
// the arguments, and whatever else the client sent.
func callParams(c Call, args json.RawMessage) json.RawMessage {
	b := make([]byte, 0, len(args)+len(c.Params)+64)
	b = append(b, `{"name":`...)
	b = wire.AppendString(b, c.Tool.ServerName())
	b = append(b, `,"arguments":`...)
	b = appendLine(b, args)
	c.others(func(key string, value []byte) {
		b = append(b, ',')
		b = wire.AppendString(b, key)
		b = append(b, ':')
		b = appendLine(b, value)
	})
	return append(b, '}')
}

// others calls f for what the client sent beside the name, the arguments and _meta.
func (c *Call) others(f func(key string, value []byte)) {
	wire.Members(c.Params, func(key string, value []byte) bool {
		if key != "name" && key != "arguments" && key != "_meta" {
			f(key, value)
		}
		return true
	})
}

// appendLine appends a JSON value without line ends, which would end a message.
func appendLine(b, value []byte) []byte {
	if wire.HasLineEnd(value) {
		compact := bytes.NewBuffer(b)
		if json.Compact(compact, value) == nil {
			return compact.Bytes()
		}
	}
	return append(b, value...)
}
