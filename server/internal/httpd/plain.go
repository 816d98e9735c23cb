package httpd

import (
	"cmp"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/server/internal/conversation"
	"github.com/mcp-metarouter/metarouter/server/internal/identity"
)

// Plain JSON-RPC has no transports, sessions and eras of MCP; requests in the style
// of REST have no JSON-RPC envelope either.

// noStream is the stream to a client that takes no message but the answer.
var noStream = &stream{closed: true}

// plain is JSON-RPC without sessions and streams.
type plain struct {
	work     *work
	backends *Backends
}

// serve answers a message of JSON-RPC.
func (p *plain) serve(w http.ResponseWriter, r *http.Request) {
	body, ok := message(w, r)
	if !ok {
		return
	}
	if wire.IsArray(body) {
		refuse(w, r, http.StatusOK, nil, errNoBatch)
		return
	}
	m, err := parsePlain(body)
	oneLine(body)
	if err == nil && p.backends.refuseCall(w, r, m) {
		return
	}
	var result json.RawMessage
	switch {
	case err != nil:
	case m.IsRequest():
		result, err = p.fulfil(w, r, m)
	default:
		w.WriteHeader(http.StatusAccepted)
		return
	}
	writeJSON(w, r, statusOf(err, plainStatus, http.StatusOK), conversation.Answer(m.ID, result, err))
}

// The statuses of errors, by their codes. In plain JSON-RPC, the error says more than a status can.
var (
	plainStatus = map[int64]int{session.CodeParse: http.StatusBadRequest}
	restStatus  = map[int64]int{
		session.CodeParse: http.StatusBadRequest, session.CodeInvalidParams: http.StatusBadRequest, session.CodeInvalidRequest: http.StatusBadRequest,
		session.CodeMethodNotFound: http.StatusNotFound,
	}
)

// statusOf is the status of an error: of a request that ends with the handler or with its grant, or of its code; other is the one for
// any other error, and for success.
func statusOf(err error, ofCode map[int64]int, other int) int {
	switch err {
	case nil:
		return other
	case conversation.ErrClosed:
		return http.StatusServiceUnavailable
	case identity.ErrRevoked:
		return http.StatusUnauthorized
	}
	return cmp.Or(ofCode[conversation.AsError(err).Code], other)
}

// parsePlain is [conversation.Parse] for JSON-RPC, where an id of null makes a request too: "A
// Notification is a Request object without an "id" member."
func parsePlain(message []byte) (conversation.Message, error) {
	m, err := conversation.Parse(message)
	if err == nil && m.IsNotification() && !strings.HasPrefix(m.Method, "notifications/") {
		m.ID = wire.Member(message, "id")
	}
	return m, err
}

// fulfil handles a request that has no session, from a client that gets only its
// answer.
func (p *plain) fulfil(w http.ResponseWriter, r *http.Request, m conversation.Message) (result json.RawMessage, err error) {
	if err := p.work.admit(m.Method); err != nil {
		return nil, err
	}
	defer p.work.answered(m.Method)
	q := requestOf(r)
	switch {
	case m.Method == "ping":
		return json.RawMessage(`{"status":"ok"}`), nil
	case subscribes(m.Method):
		return nil, conversation.InvalidRequest(m.Method + " needs a POST to /mcp with Accept: text/event-stream")
	}
	call, err := p.work.visit(responseOf(w), r, true, m, noStream)
	if err == nil {
		defer call.Close()
		result, err = call.Handle()
	}
	switch {
	case err != nil && q.revoked():
		err = identity.ErrRevoked
	case err != nil:
	case m.Method == "tools/call" && wire.IsObject(result) && wire.Member(result, "isError") == nil: // which clients of plain JSON-RPC often require
		result = wire.AddMember(result, "isError", []byte("false"))
	case m.Method == "initialize":
		result = wire.AddMember(result, "sessionId", wire.AppendString(nil, plainSession+rand.Text()))
	}
	return result, err
}

// plainSession begins the sessionId that initialize answers with in plain JSON-RPC. It is for
// clients that want one, and means nothing: no session is kept, and a client may send it back in
// parameters or as Mcp-Session-Id.
const plainSession = "plain-"

// restMethod returns the method that a path names, such as /mcp/tools/call; "" if it
// names no method.
func restMethod(path string) string {
	rest, _ := strings.CutPrefix(path, "/mcp/")
	if rest == path {
		return ""
	}
	return strings.Trim(rest, "/")
}

// rest answers a request in the style of REST: the method is in the path, the body is
// the parameters, and the answer is the bare result. Headers of MCP's transports have
// no effect.
func (p *plain) rest(w http.ResponseWriter, r *http.Request) {
	q := requestOf(r)
	notification := strings.HasPrefix(q.target.method, "notifications/")
	if _, known := q.backend.Clients.Methods[q.target.method]; !known && !notification {
		refuse(w, r, http.StatusNotFound, nil, conversation.MethodNotFound(q.target.method))
		return
	}
	if r.Method != http.MethodPost {
		notAllowed(w, r, http.MethodPost, r.URL.Path+" takes POST")
		return
	}
	body, ok := message(w, r)
	if !ok {
		return
	}
	params, err := restParams(q.target.method, body)
	if err == nil && notification {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	m := conversation.Read(wire.Message{ID: json.RawMessage("0"), Method: q.target.method, Params: params})
	if err == nil && p.backends.refuseCall(w, r, m) {
		return
	}
	var result json.RawMessage
	if err == nil {
		result, err = p.fulfil(w, r, m)
	}
	if err != nil {
		refuse(w, r, statusOf(err, restStatus, http.StatusInternalServerError), nil, err)
		return
	}
	writeJSON(w, r, http.StatusOK, result)
}

// envelope are the members of a request of JSON-RPC. A body that has only these is a
// request, unless id is the only one: no method has parameters with the other names.
var envelope = []string{"jsonrpc", "id", "method", "params"}

// restParams returns the parameters for the method: the body is the parameters, or
// nothing, or a whole request. In a whole request the method may be absent or empty, as
// in the requests of vLLM semantic router's client.
func restParams(method string, body []byte) (json.RawMessage, error) {
	if len(body) == 0 {
		return nil, nil
	}
	if !wire.Valid(body) {
		return nil, &session.Error{Code: session.CodeParse, Message: "the body is not JSON"}
	}
	oneLine(body)
	if !wire.IsObject(body) {
		return body, nil // no method takes it, unless it is null
	}
	keys := wire.Keys(body)
	isOther := func(key string) bool { return !slices.Contains(envelope, key) }
	if slices.ContainsFunc(keys, isOther) || !slices.ContainsFunc(keys, func(key string) bool { return key != "id" }) {
		return body, nil
	}
	if said := wire.Member(body, "method"); said != nil && !wire.IsString(said, "") && !wire.IsString(said, method) {
		return nil, conversation.InvalidRequest("the body names another method than the path, " + method)
	}
	return wire.Member(body, "params"), nil
}
