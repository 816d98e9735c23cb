package adapter

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/selector"
	"github.com/mcp-metarouter/metarouter/session"
)

// A bench is where tools run that belong to no MCP server: the session of a server
// that is a part of this process. The selector runs them as it runs all others, so
// arguments are validated, calls queued and results marked by the same code.
type bench struct {
	info   session.Info
	policy selector.Policy
	log    *zap.Logger

	// work runs a tool until ctx ends. Its result is a CallToolResult; its error is why
	// the tool could not answer. A panic ends the call and nothing else.
	work func(ctx context.Context, name string, arguments json.RawMessage, r session.Request) (json.RawMessage, error)

	// limit returns how long a tool may take; 0 is as long as it likes. If it is nil,
	// work sees to that itself, and is waited for when ctx ends.
	limit func(name string) time.Duration

	life  context.Context // of all calls
	end   context.CancelCauseFunc
	calls sync.WaitGroup

	// mu guards closed, and has calls grow only while it is false.
	mu     sync.Mutex
	closed bool
}

func newBench(info session.Info, p selector.Policy, log *zap.Logger) *bench {
	p.MaxConcurrent = max(p.MaxConcurrent, 0) // which is any number
	info.ProtocolVersion = session.Modern
	info.Capabilities = json.RawMessage(`{"tools":{}}`)
	b := &bench{info: info, policy: p, log: log}
	b.life, b.end = context.WithCancelCause(context.Background())
	return b
}

// Session implements [selector.Sessions].
func (b *bench) Session(context.Context, string, session.Client) (session.Session, error) {
	if b.life.Err() != nil {
		return nil, errClosed
	}
	return b, nil
}

// Policy implements [selector.Sessions].
func (b *bench) Policy(string) selector.Policy { return b.policy }

// Call implements [session.Session]. Where tools have a limit it returns when ctx
// ends, even if the tool goes on; close waits for that.
func (b *bench) Call(ctx context.Context, r session.Request) (json.RawMessage, error) {
	if r.Method != "tools/call" {
		return nil, &session.Error{Code: session.CodeMethodNotFound, Message: fmt.Sprintf("%s has no %s", b.info.Name, r.Method)}
	}
	name, _ := wire.String(wire.Member(r.Params, "name"))
	arguments := json.RawMessage(wire.Member(r.Params, "arguments"))
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(b.life, func() { cancel(context.Cause(b.life)) })()
	if b.limit != nil {
		if limit := b.limit(name); limit > 0 {
			var done context.CancelFunc
			ctx, done = context.WithTimeoutCause(ctx, limit, &slowError{name, limit})
			defer done()
		}
	}

	type answer struct {
		result json.RawMessage
		err    error
	}
	answered := make(chan answer, 1)
	if !b.begin(func() {
		a := answer{err: errors.New("the tool ended without a word")} // by runtime.Goexit
		defer func() {
			if reason := recover(); reason != nil {
				b.log.Error("a tool panicked", zap.String("tool", name), zap.ByteString("stack", debug.Stack()))
				a = answer{result: textResult(fmt.Sprintf("%s panicked: %v", name, reason), nil, true)}
			}
			answered <- a
		}()
		a.result, a.err = b.work(ctx, name, arguments, r)
	}) {
		return nil, errClosed
	}
	if b.limit == nil {
		a := <-answered
		return a.result, a.err
	}
	select {
	case a := <-answered:
		return a.result, a.err
	case <-ctx.Done():
	}
	select {
	case a := <-answered: // at the same time
		return a.result, a.err
	default:
		return nil, context.Cause(ctx)
	}
}

// begin runs f on a goroutine that close waits for, unless the bench is closed.
func (b *bench) begin(f func()) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return false
	}
	b.calls.Go(f)
	return true
}

// errEnded is the cause by which calls end that are under way when their provider is
// closed.
var errEnded = errors.New("the provider was closed during the call")

// close ends all calls, and returns when all have.
func (b *bench) close() {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.end(errEnded)
	b.calls.Wait()
}

// Notify, Subscribe and Listen implement [session.Session]; there is nothing to say.

func (*bench) Notify(context.Context, string, json.RawMessage) error { return nil }

func (b *bench) Subscribe(context.Context, string) (cancel func(), err error) {
	return nil, &session.Error{Code: session.CodeMethodNotFound, Message: b.info.Name + " has no resources"}
}

func (*bench) Listen(func(session.Message)) (stop func()) { return func() {} }

// Done implements [session.Session].
func (b *bench) Done() <-chan struct{} { return b.life.Done() }

// Info implements [session.Session].
func (b *bench) Info() session.Info { return b.info }

// A slowError says that a tool took longer than it may.
type slowError struct {
	what  string
	limit time.Duration
}

func (e *slowError) Error() string {
	return fmt.Sprintf("%s did not answer within %s", e.what, e.limit)
}

// textResult returns a CallToolResult of one text, and of the structured content unless
// that is nil.
func textResult(text string, structured json.RawMessage, failed bool) json.RawMessage {
	r := struct {
		Content    [1]map[string]string `json:"content"`
		Structured json.RawMessage      `json:"structuredContent,omitempty"`
		IsError    bool                 `json:"isError,omitempty"`
	}{[1]map[string]string{{"type": "text", "text": text}}, structured, failed}
	return wire.Marshal(r)
}
