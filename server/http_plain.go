package server

import (
	"cmp"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/session"
)

// JSON-RPC, which knows nothing of MCP's transports, sessions and eras; and requests
// in the style of REST, which know nothing of JSON-RPC either.

// A nowhere is an outlet to a client that takes nothing but the answer.
type nowhere struct{}

func (nowhere) send([]byte) error { return errStreamEnded }

func (x *exchange) visit(plain bool) *conversation {
	c := x.h.server.visit(plain)
	c.principal = x.principal
	return c
}

// plain answers a message of JSON-RPC, or a batch of them.
func (x *exchange) plain() {
	body, ok := x.message()
	if !ok {
		return
	}
	if wire.IsArray(body) {
		x.plainBatch(body)
		return
	}
	m, err := parsePlain(body)
	oneLine(body)
	answer, err := x.answer(m, err, x.ask)
	if answer == nil {
		x.accepted()
		return
	}
	x.json(plainStatus(err), answer)
}

// plainStatus is the status of an answer of JSON-RPC, in which an error says more
// than a status can.
func plainStatus(err error) int {
	switch {
	case err == nil:
		return http.StatusOK
	case err == errClosed:
		return http.StatusServiceUnavailable
	case asError(err).Code == session.CodeParse:
		return http.StatusBadRequest
	}
	return http.StatusOK
}

// plainBatch answers a batch, with the answers in the order of the requests.
func (x *exchange) plainBatch(body []byte) {
	entries, err := x.split(body)
	if err != nil {
		x.refuse(plainStatus(err), nil, err)
		return
	}
	if !x.pay(len(entries)) {
		return
	}
	done, err := x.h.admit("") // all of it, so that a closing handler lets it finish
	if err != nil {
		x.refuse(plainStatus(err), nil, err)
		return
	}
	defer done()
	answers := make([][]byte, len(entries))
	var said tally
	eachAtOnce(len(entries), func(i int) {
		if x.r.Context().Err() != nil {
			return
		}
		m, err := parsePlain(entries[i])
		if err == nil && m.IsRequest() {
			err = said.full()
		}
		answer, _ := x.answer(m, err, x.fulfil)
		answers[i] = said.keep(m.ID, answer)
	})
	if array := join(answers); array != nil {
		x.json(http.StatusOK, array)
		return
	}
	x.accepted()
}

// split is split for the body of the request.
func (x *exchange) split(body []byte) (entries [][]byte, err error) {
	entries, err = split(body, x.h.opts.MaxBatch)
	if err == nil {
		oneLine(body)
	}
	return entries, err
}

// parsePlain is parse for JSON-RPC, where an id of null makes a request too: "A
// Notification is a Request object without an "id" member."
func parsePlain(message []byte) (wire.Message, error) {
	m, err := parse(message)
	if err == nil && m.IsNotification() && !strings.HasPrefix(m.Method, "notifications/") {
		m.ID = wire.Member(message, "id")
	}
	return m, err
}

// answer returns the answer to a message, nil if it has none, and the error that it
// says; wrong is what is wrong with the message itself, and ask carries out requests.
func (x *exchange) answer(m wire.Message, wrong error, ask func(wire.Message) (json.RawMessage, error)) (answer []byte, err error) {
	if wrong == nil && !m.IsRequest() {
		return nil, nil
	}
	var result json.RawMessage
	if err = wrong; err == nil {
		result, err = ask(m)
	}
	return response(m.ID, result, err), err
}

// ask lets a request in, and carries it out.
func (x *exchange) ask(m wire.Message) (result json.RawMessage, err error) {
	done, err := x.h.admit(m.Method)
	if err != nil {
		return nil, err
	}
	defer done()
	return x.fulfil(m)
}

// fulfil carries out a request that needs no session and gets nothing but its answer.
func (x *exchange) fulfil(m wire.Message) (result json.RawMessage, err error) {
	switch m.Method {
	case "ping":
		return json.RawMessage(`{"status":"ok"}`), nil
	case "subscriptions/listen":
		return nil, invalidRequest(m.Method + " needs a POST to /mcp with Accept: text/event-stream")
	}
	c := x.visit(true)
	defer c.close()
	refused := x.once(c, m, nowhere{}, func(r *request) { result, err = r.carryOut() })
	return result, cmp.Or(refused, err)
}

// restMethod returns the method that a path names, such as /mcp/tools/call; "" if it
// names none.
func restMethod(path string) string {
	rest, _ := strings.CutPrefix(path, "/mcp/")
	if rest == path {
		return ""
	}
	return strings.Trim(rest, "/")
}

// restful answers a request in the style of REST: the method is in the path, the body
// is the parameters, and the answer is the bare result. Headers of MCP's transports
// mean nothing here.
func (x *exchange) restful() {
	notification := strings.HasPrefix(x.rest, "notifications/")
	if _, known := methods[x.rest]; !known && !notification {
		x.refuse(http.StatusNotFound, nil, methodNotFound(x.rest))
		return
	}
	if x.r.Method != http.MethodPost {
		x.notAllowed(http.MethodPost, "/mcp/"+x.rest+" takes POST")
		return
	}
	body, ok := x.message()
	if !ok {
		return
	}
	params, err := restParams(x.rest, body)
	if err == nil && notification {
		x.accepted()
		return
	}
	var result json.RawMessage
	if err == nil {
		result, err = x.ask(wire.Message{ID: json.RawMessage("0"), Method: x.rest, Params: params})
	}
	if err != nil {
		x.refuse(restStatus(err), nil, err)
		return
	}
	x.json(http.StatusOK, result)
}

func restStatus(err error) int {
	if err == errClosed {
		return http.StatusServiceUnavailable
	}
	switch asError(err).Code {
	case session.CodeParse, session.CodeInvalidRequest, session.CodeInvalidParams:
		return http.StatusBadRequest
	case session.CodeMethodNotFound:
		return http.StatusNotFound
	}
	return http.StatusInternalServerError
}

// envelope are the members of a request of JSON-RPC. A body with no others is one,
// unless it has none but an id, and holds the parameters: no method has parameters
// of the other names.
var envelope = []string{"jsonrpc", "id", "method", "params"}

// restParams returns the parameters that a body gives for the method: it is them, or
// nothing, or the request of which they are a part. There the method may be left
// out, or be empty, as the client of vLLM's semantic router has it.
func restParams(method string, body []byte) (json.RawMessage, error) {
	if len(body) == 0 {
		return nil, nil
	}
	if !wire.Valid(body) {
		return nil, &session.Error{Code: session.CodeParse, Message: "the body is no JSON"}
	}
	oneLine(body)
	if !wire.IsObject(body) {
		return body, nil // which nothing takes but null
	}
	enveloped, only := false, true
	wire.Members(body, func(key string, _ []byte) bool {
		only = slices.Contains(envelope, key)
		enveloped = enveloped || key != "id"
		return only
	})
	if !only || !enveloped {
		return body, nil
	}
	var params json.RawMessage
	var err error
	wire.Members(body, func(key string, value []byte) bool {
		said, isString := wire.String(value)
		switch {
		case key == "params":
			params = value
		case key == "jsonrpc" && said != "2.0":
			err = errVersion
		case key == "method" && (!isString || said != "" && said != method):
			err = invalidRequest("the body names another method than the path, " + method)
		}
		return true
	})
	return params, err
}
