package conversation

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/wire"
)

const maxAround = 64 << 10 // bytes of a request besides its parameters, which alone are counted while it waits

// Errors with which requests fail.
var (
	ErrIDInUse = InvalidRequest("the id of the request is in use")
	ErrClosed  = session.Internal("the router is going away")
	ErrVersion = InvalidRequest(`jsonrpc must be "2.0"`)
	errNotUTF8 = &session.Error{Code: session.CodeParse, Message: "the message is not UTF-8"}
	errTooDeep = InvalidRequest(fmt.Sprintf("the message is nested deeper than %d levels", wire.MaxLevels)) // parsers of servers give up at it
	errAround  = InvalidRequest(fmt.Sprintf("the message has more than %d bytes besides its params", maxAround))
	ErrBusy    = session.Internal(fmt.Sprintf("busy: %d requests are in flight", maxInFlight))
)

// ErrUnread is the cause of requests that end because their client does not read.
var ErrUnread = errors.New("the client does not read what it is sent")

var (
	errCancelled = errors.New("cancelled by the client")

	// errUnanswered says that a request was cancelled, so that nothing is answered.
	errUnanswered = errors.New("the request was cancelled, and is not answered")
)

// InvalidRequest returns an error about a message.
func InvalidRequest(message string) error {
	return &session.Error{Code: session.CodeInvalidRequest, Message: message}
}

// MethodNotFound returns the error for a method that does not exist.
func MethodNotFound(method string) error {
	return &session.Error{Code: session.CodeMethodNotFound, Message: "method not found: " + Brief(method)}
}

// AsError returns the JSON-RPC error for any error.
func AsError(err error) *session.Error {
	if e, ok := errors.AsType[*session.Error](err); ok {
		return e
	}
	return &session.Error{Code: session.CodeInternal, Message: err.Error()}
}

// Brief returns the beginning of a text that a client sent, to be repeated to it.
func Brief(s string) string { return s[:min(len(s), 200)] }

// A Message is a message of a client, with the members of its parameters. Members are nil if absent.
type Message struct {
	wire.Message                                    // Params are nil if they are null
	Meta, Name, Args                         []byte // _meta, name and arguments in Params
	More                                     bool   // Params has other members
	Protocol                                 []byte // the version in Meta, which the modern era has
	clientCapabilities, clientInfo, logLevel []byte // others in Meta
	fault                                    error  // why Params are no object
}

// Read finds the members of the parameters, in one pass.
func Read(of wire.Message) Message {
	m := Message{Message: of}
	if m.Params == nil || string(m.Params) == "null" {
		m.Params = nil
		return m
	}
	m.fault = wire.Members(m.Params, func(key string, value []byte) bool {
		switch key {
		case "_meta":
			m.Meta = value
		case "name":
			m.Name = value
		case "arguments":
			m.Args = value
		default:
			m.More = true
		}
		return true
	})
	if m.Meta != nil {
		var found [4][]byte
		_ = wire.Pick(m.Meta, found[:], MetaVersion, metaCapabilities, metaClient, metaLogLevel)
		m.Protocol, m.clientCapabilities, m.clientInfo, m.logLevel = found[0], found[1], found[2], found[3]
	}
	return m
}

// faults are the errors for the faults of messages.
var faults = map[error]error{wire.ErrNotUTF8: errNotUTF8, wire.ErrTooDeep: errTooDeep}

// Parse reads a message, or the fault with it.
func Parse(line []byte) (Message, error) {
	of, err := wire.Parse(line)
	m := Read(of)
	switch {
	case err != nil:
	case m.Fault != nil && m.IsResponse(): // the server that asked must not wait for it
		m.Result, m.Error = nil, wire.Marshal(faults[m.Fault])
		return m, nil
	case m.Fault != nil:
		return m, faults[m.Fault]
	case m.IsRequest() && len(line)-len(m.Params) > maxAround:
		return m, errAround
	case m.Version != nil && string(m.Version) != `"2.0"`:
		return m, ErrVersion
	default:
		return m, nil
	}
	code := int64(session.CodeInvalidRequest)
	if !wire.Valid(line) {
		code = session.CodeParse
	}
	return m, &session.Error{Code: code, Message: err.Error()}
}

// Answer returns the line that answers the request of the id with the result, or
// with the error if there is one.
func Answer(id, result json.RawMessage, err error) []byte {
	if err != nil {
		return Refusal(id, err)
	}
	return wire.AppendResult(make([]byte, 0, len(result)+64), id, result)
}

// Notify sends a notification, unless its parameters are no [wire.Object].
func Notify(w Writer, m session.Message) error {
	params, err := wire.ParseObject(m.Params)
	if err != nil {
		return err
	}
	return w.Send(wire.AppendNotification(nil, m.Method, params))
}

// Refusal returns the line that answers with an error. The id may be nil or
// invalid.
func Refusal(id json.RawMessage, err error) []byte {
	if len(id) > 0 && (id[0] == '{' || id[0] == '[' || id[0] == 't' || id[0] == 'f') {
		id = nil
	}
	return wire.AppendError(nil, id, wire.Marshal(AsError(err)))
}

// IsNotification reports whether a message that the router sends is a notification,
// and neither an answer nor a question.
func IsNotification(message []byte) bool {
	return bytes.HasPrefix(message, []byte(`{"jsonrpc":"2.0","method"`))
}
