package conversation

import (
	"context"
	"encoding/json"
	"fmt"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/wire"
)

// A Request is a request of a client, until it is answered or cancelled. It is the
// [session.Client] of all that servers are asked because of it.
type Request struct {
	*Conversation
	Message

	Quick bool // it is answered before the next message is looked at

	how     Method // the zero value for an unknown method
	modern  bool
	writer  Writer // takes the messages that belong to the request
	ctx     context.Context
	end     context.CancelCauseFunc
	asker   *suspension // may ask the client in the answer to this request, may be nil; guarded by Requests.mu
	waiting *suspension // for which the answer lets the client come back

	heartbeat *heartbeat // nil if the client has not asked for progress
}

// A Call is a request that is being handled. From is asked and notified on
// behalf of the client: the request itself, or a suspension that outlives it.
type Call struct {
	*Request
	From session.Client
}

// maxID bounds the id of a request, in bytes. The id is repeated in every
// notification of a subscription.
const maxID = 1024

// admit finds the era of the request, and whether the request may come now.
func admit(r *Request) error {
	noMeta := r.Meta != nil && !wire.IsObject(r.Meta)
	r.modern = r.Protocol != nil
	switch {
	case len(r.ID) > maxID:
		return InvalidRequest(fmt.Sprintf("the id of the request is longer than %d bytes", maxID))
	case (r.fault != nil || noMeta) && r.how.Handle == nil:
		return MethodNotFound(r.Method)
	case r.fault != nil:
		return session.InvalidParams("params must be an object")
	case noMeta:
		return session.InvalidParams("_meta must be an object")
	case r.modern && string(r.Protocol) != quotedModern && checkVersion(r.Protocol) != nil:
		return checkVersion(r.Protocol)
	case r.modern && !wire.IsObject(r.clientCapabilities): // "MUST" be in every modern request
		return session.InvalidParams("missing or invalid _meta field " + metaCapabilities)
	}
	c := r.Conversation
	c.mu.Lock()
	opened := c.opened
	c.mu.Unlock()
	switch {
	case !r.modern && !opened && (c.Visitor || r.how.Modern):
		return session.InvalidParams("the request has no " + MetaVersion + " in _meta")
	case r.how.Handle == nil, r.modern && r.how.Legacy, !r.modern && r.how.Modern && !c.Plain:
		return MethodNotFound(r.Method)
	case r.Method == "initialize":
		if session.IsResent(r.Meta) {
			c.questions.startAnew()
		}
		return c.introduce(r.Params)
	case !r.modern && !opened && r.Method != "ping":
		return InvalidRequest(r.Method + " before initialize")
	}
	return nil
}

const quotedModern = `"` + session.Modern + `"`

// checkVersion fails unless the JSON value is the revision of the modern era.
func checkVersion(protocol []byte) error {
	switch version, isString := wire.String(protocol); {
	case !isString:
		return session.InvalidParams(MetaVersion + " in _meta must be a string")
	case version != session.Modern:
		return Unsupported(version)
	}
	return nil
}

// Run handles the request and returns the line that answers it, nil if it was
// cancelled.
func (r *Request) Run() (line []byte) {
	result, err := r.Handle()
	if err == errUnanswered {
		return nil
	}
	return Answer(r.ID, result, err)
}

// Handle runs the method's handler and closes the request. It fails if the request was
// cancelled, so that no answer is expected.
func (r *Request) Handle() (result json.RawMessage, err error) {
	r.heartbeat = startHeartbeat(r)
	defer func() {
		if p := recover(); p != nil {
			err = r.Panicked(p)
		}
		r.heartbeat.stop()
		open := r.Requests.remove(r)
		r.end(nil)
		if !open {
			if r.waiting != nil { // the client will not come back for it
				r.clients.suspended.giveUp(errCancelled, r.waiting)
			}
			result, err = nil, errUnanswered
		}
	}()
	// A server may ask a modern client only in the answer to a request, so the handler must
	// be able to outlive this request: it runs in a goroutine of its own.
	if r.passed || r.how.Asks && r.modern && session.AnswersAny(r.Capabilities()) {
		result, err = r.clients.suspended.handle(r)
	} else {
		result, err = r.how.Handle(r.ctx, Call{r, r})
	}
	switch {
	case err != nil:
		return nil, err
	case r.clients.Raw != nil:
		return r.clients.Raw(r, result), nil
	case !r.modern:
		return adapt(r.Method, r.Revision(), result), nil
	case r.how.Cacheable:
		result = cacheable(result)
	}
	return completed(adapt(r.Method, session.Modern, result), r.clients.Info), nil
}

// Panicked logs a panic, which is an error of this request alone.
func (r *Request) Panicked(p any) error {
	r.clients.Log.Error("a request has panicked", zap.String("method", r.Method), zap.Any("panic", p), zap.Stack("stack"))
	return session.Internal("internal error")
}

// Cancel ends the request for a cause, which is then answered.
func (r *Request) Cancel(cause error) { r.end(cause) }

// Context returns the context that ends with the request.
func (r *Request) Context() context.Context { return r.ctx }

// Owner is the key under which the client is remembered: its session, or else its principal.
func (r *Request) Owner() any {
	if r.Visitor {
		return r.Principal
	}
	return r.Conversation
}

// ServerMeta returns the _meta that servers get: the members that the client sent, and the
// level of its log messages, which legacy clients set once for all requests.
func (r *Request) ServerMeta() json.RawMessage {
	if r.modern {
		return r.Meta
	}
	level := r.Level()
	if level == "" {
		return r.Meta
	}
	return wire.SetMember(wire.OrEmpty(r.Meta), metaLogLevel, wire.AppendString(nil, level))
}

// BareParams returns the parameters without _meta.
func (r *Request) BareParams() json.RawMessage {
	if r.Meta == nil {
		return r.Params
	}
	return wire.DeleteMember(r.Params, "_meta")
}

// Text returns a parameter that must be a string.
func (r *Request) Text(name string) (string, error) {
	s, ok := wire.String(wire.Member(r.Params, name))
	if !ok {
		return "", session.InvalidParams(r.Method + " needs the string " + name)
	}
	return s, nil
}

// ClientName implements [session.Client].
func (r *Request) ClientName() string {
	if r.modern {
		return Brief(wire.Text(r.clientInfo, "name"))
	}
	return r.Conversation.ClientName()
}

// Modern implements [session.Client].
func (r *Request) Modern() bool { return r.modern }

// Capabilities implements [session.Client].
func (r *Request) Capabilities() json.RawMessage {
	if !r.modern {
		return r.Conversation.Capabilities()
	}
	return r.clientCapabilities
}

// Notify implements [session.Client]. A modern client gets no log messages unless
// it asked for them.
func (r *Request) Notify(_ string, m session.Message) {
	if m.Method == "notifications/message" {
		level := ""
		if r.modern {
			var wanted bool
			if level, wanted = wire.String(r.logLevel); !wanted {
				return
			}
		} else {
			level = r.Level()
		}
		if !severe(m, level) {
			return
		}
		if r.clients.Raw != nil { // calls of several clients share the stream
			m.Params = wire.SetMeta(m.Params, session.MetaRequest, r.ID)
		}
	}
	if m.Method == progressMethod && r.heartbeat != nil {
		r.heartbeat.pass(m)
		return
	}
	Notify(r.writer, m)
}

// Ask implements [session.Client].
func (r *Request) Ask(ctx context.Context, server string, m session.Message) (json.RawMessage, error) {
	if r.modern {
		return nil, cannotAnswer(m.Method)
	}
	defer session.Asked(ctx)()
	return r.questions.ask(ctx, r.Conversation, r.writer, server, m)
}
