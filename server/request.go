package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/session"
)

// A request is one of a client's, until it is answered or cancelled. It is the
// [session.Client] of what is asked of servers because of it.
type request struct {
	*conversation
	id     json.RawMessage
	method string
	params json.RawMessage // as sent
	meta   json.RawMessage // the _meta in params; nil if absent
	name   json.RawMessage // the name in params; nil if absent
	args   json.RawMessage // the arguments in params; nil if absent
	more   bool            // params has other members
	modern bool
	out    outlet // for what belongs to it
	slot   int    // in the journal of its pipe
	ctx    context.Context
	end    context.CancelCauseFunc
	parked *parking // where questions to a modern client are put; guarded by conversation.mu
	left   *parking // what the answer lets the client come back for
}

// maxID bounds the id of a request, in bytes.
const maxID = 1024

// begin lets a request in. Unless it fails, run must be called.
func (c *conversation) begin(ctx context.Context, m wire.Message, out outlet) (*request, error) {
	if len(m.ID) > maxID { // it is repeated in every notification of a subscription
		return nil, &session.Error{Code: session.CodeInvalidRequest, Message: fmt.Sprintf("the id of the request is longer than %d bytes", maxID)}
	}
	r := &request{conversation: c, id: m.ID, method: m.Method, params: m.Params, out: out}
	if err := r.read(); err != nil {
		if _, known := methods[m.Method]; !known {
			return nil, methodNotFound(m.Method)
		}
		return nil, err
	}
	if err := r.admit(); err != nil {
		return nil, err
	}
	r.ctx, r.end = context.WithCancelCause(ctx)
	if err := c.enter(r); err != nil {
		r.end(err)
		return nil, err
	}
	return r, nil
}

// read finds what is needed of the parameters, in one pass. Null is as good as none.
func (r *request) read() error {
	if r.params == nil || string(r.params) == "null" {
		r.params = nil
		return nil
	}
	err := wire.Members(r.params, func(key string, value []byte) bool {
		switch key {
		case "_meta":
			r.meta = value
		case "name":
			r.name = value
		case "arguments":
			r.args = value
		default:
			r.more = true
		}
		return true
	})
	switch {
	case err != nil:
		return invalidParams("params must be an object")
	case r.meta != nil && !wire.IsObject(r.meta):
		return invalidParams("_meta must be an object")
	}
	return nil
}

// admit finds out the era of the request, and whether it may come at this point.
func (r *request) admit() (err error) {
	if r.modern, err = checkEra(r.meta); err != nil {
		return err
	}
	how, known := methods[r.method]
	opened := r.isOpened()
	switch {
	case !r.modern && !opened && (r.visitor || how.modern):
		return invalidParams("the request has no " + metaVersion + " in _meta")
	case !known, r.modern && how.legacy, !r.modern && how.modern && !r.plain:
		return methodNotFound(r.method)
	case r.method == "initialize":
		return r.introduce()
	case !r.modern && !opened && r.method != "ping":
		return &session.Error{Code: session.CodeInvalidRequest, Message: r.method + " before initialize"}
	}
	return nil
}

func methodNotFound(method string) error {
	return &session.Error{Code: session.CodeMethodNotFound, Message: "method not found: " + brief(method)}
}

// run answers the request: nil if it was cancelled.
func (r *request) run() (answer []byte) {
	result, err := r.carryOut()
	if err == errUnanswered {
		return nil
	}
	return response(r.id, result, err)
}

// refuse answers the request without carrying it out: nil if it was cancelled.
func (r *request) refuse(err error) (answer []byte) {
	defer r.end(nil)
	if !r.leave(r) {
		return nil
	}
	return refusal(r.id, err)
}

// errUnanswered says that a request was cancelled, so that nothing is answered.
var errUnanswered = errors.New("the request was cancelled, and is not answered")

// response is the answer to the request of the id.
func response(id, result json.RawMessage, err error) []byte {
	if err != nil {
		return refusal(id, err)
	}
	return wire.AppendResult(make([]byte, 0, len(result)+64), id, result)
}

// carryOut carries out the request and closes it. It fails with errUnanswered if it
// was not open any more.
func (r *request) carryOut() (result json.RawMessage, err error) {
	result, err = r.dispatch()
	if !r.leave(r) {
		r.end(nil)
		if r.left != nil { // nobody will come back for it
			r.server.giveUp(errCancelled, r.left)
		}
		return nil, errUnanswered
	}
	r.end(nil)
	return result, err
}

func (r *request) dispatch() (result json.RawMessage, err error) {
	defer r.survive(&err)
	how := methods[r.method]
	if how.asks && r.modern && session.AnswersAny(r.Capabilities()) {
		result, err = r.interactive(how.handle)
	} else {
		result, err = how.handle(r.ctx, &call{request: r, from: r})
	}
	if err != nil {
		return nil, err
	}
	return r.finish(how, result), nil
}

// survive makes a panic an error of this request alone. It must be deferred.
func (r *request) survive(err *error) {
	if p := recover(); p != nil {
		r.server.log.Error("a request has panicked", zap.String("method", r.method), zap.Any("panic", p), zap.Stack("stack"))
		*err = &session.Error{Code: session.CodeInternal, Message: "internal error"}
	}
}

// finish makes a result what the client's era expects.
func (r *request) finish(how method, result json.RawMessage) json.RawMessage {
	if !r.modern {
		return r.guard(result)
	}
	if how.cacheable {
		result = cacheable(result)
	}
	return r.server.complete(result)
}

// A call is a request that is being carried out, for whoever waits for it.
type call struct {
	*request
	from   session.Client
	routed bool   // a server's tool was executed, so that the result says how
	trace  string // the id of the trace of one of our own tools, "" if there is none
}

// relay sends the request to a server, with these parameters, which have no
// _meta.
func (c *call) relay(ctx context.Context, server string, params json.RawMessage) (json.RawMessage, error) {
	return c.server.router.Relay(ctx, server, session.Request{Method: c.method, Params: params, Meta: c.callMeta(), From: c.from})
}

// callMeta is what servers get in _meta: what the client said there, and the
// level of its log messages, which legacy clients set once for all.
func (r *request) callMeta() json.RawMessage {
	if r.modern {
		return r.meta
	}
	r.mu.Lock()
	level := r.level
	r.mu.Unlock()
	if level == "" {
		return r.meta
	}
	meta := r.meta
	if meta == nil {
		meta = json.RawMessage("{}")
	}
	return wire.SetMember(meta, metaLogLevel, wire.AppendString(nil, level))
}

// bare returns the parameters without _meta.
func (r *request) bare() json.RawMessage {
	if r.meta == nil {
		return r.params
	}
	return wire.DeleteMember(r.params, "_meta")
}

// text returns a parameter that must be a string.
func (r *request) text(name string) (string, error) {
	s, ok := wire.String(wire.Member(r.params, name))
	if !ok {
		return "", invalidParams(r.method + " needs the string " + name)
	}
	return s, nil
}

// What follows makes a request a session.Client.

// Modern implements [session.Client].
func (r *request) Modern() bool { return r.modern }

// Capabilities implements [session.Client].
func (r *request) Capabilities() json.RawMessage {
	if !r.modern {
		return r.conversation.Capabilities()
	}
	return wire.Member(r.meta, metaCapabilities)
}

// Notify implements [session.Client].
func (r *request) Notify(_ string, m session.Message) {
	if m.Method == "notifications/message" && !r.wants(m) {
		return
	}
	r.out.send(wire.AppendNotification(nil, m.Method, m.Params))
}

// wants reports whether a log message is severe enough for the client. One of
// the modern era gets none unless it asked for them.
func (r *request) wants(m session.Message) bool {
	if !r.modern {
		return r.conversation.wants(m)
	}
	level, ok := wire.String(wire.Member(r.meta, metaLogLevel))
	return ok && severe(m, level)
}

// Ask implements [session.Client].
func (r *request) Ask(ctx context.Context, server string, m session.Message) (json.RawMessage, error) {
	if r.modern {
		return nil, cannotAnswer(m.Method)
	}
	return r.put(ctx, r.out, server, m)
}

// refusal is an answer that says what went wrong. The id may be nil or invalid.
func refusal(id json.RawMessage, err error) []byte {
	if len(id) > 0 && (id[0] == '{' || id[0] == '[' || id[0] == 't' || id[0] == 'f') {
		id = nil
	}
	return wire.AppendError(nil, id, wire.Marshal(asError(err)))
}

func asError(err error) *session.Error {
	if e, ok := errors.AsType[*session.Error](err); ok {
		return e
	}
	return &session.Error{Code: session.CodeInternal, Message: err.Error()}
}
