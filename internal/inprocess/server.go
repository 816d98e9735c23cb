package inprocess

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/internal/content"
	"github.com/mcp-metarouter/metarouter/internal/execute"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/signal"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/internal/wire"
)

// Options are the options of a [Server].
type Options struct {
	Info   session.Info   // its name, version and whether it asks another machine; the Server adds the rest
	Policy execute.Policy // how calls are made; a MaxConcurrent below 0 is any number
	Log    *zap.Logger

	// Run runs a tool until ctx ends. Its result is a CallToolResult; its error says
	// why the tool could not answer. A panic ends the call and nothing else.
	Run func(ctx context.Context, tool string, arguments json.RawMessage, r session.Request) (json.RawMessage, error)

	// Limit returns the time limit of a tool; 0 is unlimited. With Limit, a call returns when
	// its time is over, even if Run goes on. If Limit is nil, a call waits for Run, which must
	// return soon after ctx ends.
	Limit func(tool string) time.Duration
}

// A Server runs a provider's tools as an MCP server does: it is a [session.Session], so that the same
// code validates arguments, queues calls and marks results.
type Server struct {
	options Options
	life    *signal.Life // ends at Close, and all calls with it
}

// NewServer returns a server. It must be closed.
func NewServer(o Options) *Server {
	o.Policy.MaxConcurrent = max(o.Policy.MaxConcurrent, 0)
	o.Policy.MustCheck = true // functions rely on it
	o.Info.ProtocolVersion = session.Modern
	o.Info.Capabilities = json.RawMessage(`{"tools":{}}`)
	return &Server{options: o, life: signal.NewLife()}
}

// Session implements [execute.Sessions].
func (s *Server) Session(context.Context, string, session.Client) (session.Session, error) {
	if s.Closed() {
		return nil, ErrClosed
	}
	return s, nil
}

// Policy implements [execute.Sessions].
func (s *Server) Policy(string) execute.Policy { return s.options.Policy }

// State implements [execute.Sessions].
func (s *Server) State(string) status.State { return status.Ready }

// Call implements [session.Session].
func (s *Server) Call(ctx context.Context, r session.Request) (json.RawMessage, error) {
	if r.Method != "tools/call" {
		return nil, &session.Error{Code: session.CodeMethodNotFound, Message: fmt.Sprintf("%s has no %s", s.options.Info.Name, r.Method)}
	}
	name := wire.Text(r.Params, "name")
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(s.life.Context(), func() { cancel(s.life.Cause()) })()
	if s.options.Limit != nil {
		if limit := s.options.Limit(name); limit > 0 {
			var done context.CancelFunc
			ctx, done = context.WithTimeoutCause(ctx, limit, &TimeoutError{name, limit})
			defer done()
		}
	}
	answered, err := s.start(ctx, name, r)
	if err != nil {
		return nil, err
	}
	over := ctx.Done()
	if s.options.Limit == nil {
		over = nil
	}
	select {
	case a := <-answered:
		return a.result, a.err
	case <-over:
	}
	select {
	case a := <-answered: // at the same time
		return a.result, a.err
	default:
		return nil, context.Cause(ctx)
	}
}

type answer struct {
	result json.RawMessage
	err    error
}

// start runs the tool on a goroutine that Close waits for.
func (s *Server) start(ctx context.Context, name string, r session.Request) (<-chan answer, error) {
	arguments := json.RawMessage(wire.Member(r.Params, "arguments"))
	answered := make(chan answer, 1)
	begun := s.life.Go(func() {
		a := answer{err: errors.New("the tool ended without a result")} // runtime.Goexit
		defer func() {
			if reason := recover(); reason != nil {
				s.options.Log.Error("a tool panicked", zap.String("tool", name), zap.ByteString("stack", debug.Stack()))
				a = answer{result: content.Text(fmt.Sprintf("%s panicked: %v", name, reason), nil, true)}
			}
			answered <- a
		}()
		a.result, a.err = s.options.Run(ctx, name, arguments, r)
	})
	if !begun {
		return nil, ErrClosed
	}
	return answered, nil
}

// Close ends all calls with [ErrEnded], and returns when all have returned.
func (s *Server) Close() {
	s.life.Close(ErrEnded)
	s.life.Wait()
}

// Closed reports whether Close was called.
func (s *Server) Closed() bool { return s.life.Cause() != nil }

// Subscribe implements [session.Session]. It fails, since the server has no resources.
func (s *Server) Subscribe(context.Context, string) (cancel func(), err error) {
	return nil, &session.Error{Code: session.CodeMethodNotFound, Message: s.options.Info.Name + " has no resources"}
}

// Done implements [session.Session].
func (s *Server) Done() <-chan struct{} { return s.life.Done() }

// Info implements [session.Session].
func (s *Server) Info() session.Info { return s.options.Info }
