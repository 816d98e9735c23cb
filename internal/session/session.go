// Package session has the interfaces between the supervisor, which keeps MCP servers alive, and
// the packages that use them.
//
// A [Session] is one initialized connection to one MCP server: a child process, a remote HTTP
// endpoint, or later a server on another node. A [Client] is the other end: the client of the
// router for which a request is made.
//
// Parameters and results are the bytes that the other side wrote. The router does not decode
// them, so that clients get results unchanged.
package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/mcp-metarouter/metarouter/internal/wire"
)

// Protocol revisions, oldest first. In the legacy era, before [Modern], a client opens a
// session with initialize. In the modern era each request is complete by itself.
const (
	Oldest       = "2024-11-05"
	LatestLegacy = "2025-11-25"
	Modern       = "2026-07-28"
)

// Levels are the severities of log messages, the least severe first.
var Levels = []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

// SkillsExtension is the extension of servers that have skills: SEP-2640.
const SkillsExtension = "io.modelcontextprotocol/skills"

// A Session is an initialized connection to an MCP server. Several goroutines may call its
// methods at once.
type Session interface {
	// Call sends a request and waits for its result: the server's own bytes, which must
	// not be modified. If ctx ends first, Call cancels the request at the server and
	// returns the cause.
	//
	// A JSON-RPC error from the server is an *[Error] with its code, message and data as
	// sent. Any other error wraps [ErrNotSent] if the request was not sent, or [ErrClosed]
	// if the session ended before the answer came.
	Call(ctx context.Context, r Request) (json.RawMessage, error)

	// Subscribe asks the server for notifications/resources/updated when the resource
	// changes, until cancel is called.
	Subscribe(ctx context.Context, uri string) (cancel func(), err error)

	// Done is closed when the session has ended.
	Done() <-chan struct{}

	// Info returns the server's description of itself. It does not change.
	Info() Info
}

// A Request is a JSON-RPC request to a server.
type Request struct {
	Method string
	Params json.RawMessage // an object without _meta and without line ends; nil if absent
	Meta   json.RawMessage // the client's _meta, an object; nil if absent
	From   Client          // the client that makes the request; nil for the router itself

	// Repeatable says that the request may take effect twice: its sender would repeat a request
	// that was sent and has no answer. Requests other than tools/call always may.
	Repeatable bool

	// Asks says that the session asks the client each question of the server, even if the client handles
	// input_required results itself: it can't send the request again.
	Asks bool

	// Here says that no other node may carry out the request, even if one has a replica of the
	// server: it comes from another node.
	Here bool

	// Origin is the client of the request, as another node must know it. Ran, if it is set,
	// is filled in by a session with a server on another node, before Call returns. Both may
	// be nil.
	Origin *Origin
	Ran    *Run
}

// A Client is the client of the router for which a request is made: one of its requests, or
// its session. Several goroutines may call its methods at once.
type Client interface {
	// Home returns the client's session, which receives the messages that belong to no
	// request. All requests of a client have the same home, and a home is its own home.
	// It is nil for a client without a session, such as a modern one over HTTP. Homes can
	// be compared with ==.
	Home() Client

	// ClientName returns the name that the client gives itself; may be "".
	ClientName() string

	// Modern reports whether the client speaks the modern era: it handles input_required
	// results itself.
	Modern() bool

	// Capabilities returns the client's capabilities object, which lists the requests that a server may
	// ask.
	Capabilities() json.RawMessage

	// Notify receives the notifications of the server that belong to the request, in wire
	// order and before the result: progress, with the client's own token, and log
	// messages. It must not block.
	Notify(server string, m Message)

	// Ask sends a request of the server to the client and returns the client's result, or
	// its error as an *[Error].
	Ask(ctx context.Context, server string, m Message) (json.RawMessage, error)
}

// A Message is a message that a server sends by itself: a request or a notification.
type Message struct {
	Method string
	Params json.RawMessage // as sent; nil if absent
}

// Info is a server's description of itself at the start of the session.
type Info struct {
	ProtocolVersion string          // the negotiated revision, such as "2025-11-25"
	Name, Version   string          // serverInfo
	Look            json.RawMessage // name, title, websiteUrl and icons of serverInfo, as an object; nil without
	Instructions    string          // may be empty
	Capabilities    json.RawMessage // the server's capabilities object, as sent
	PID             int             // of the child process; 0 without one
	Remote          bool            // reached over HTTP
}

// Era returns "modern" for revision 2026-07-28 and later, otherwise "legacy".
func (i Info) Era() string {
	if i.ProtocolVersion >= Modern {
		return "modern"
	}
	return "legacy"
}

// Has reports whether the server declared the capability, such as "tools".
func (i Info) Has(capability string) bool {
	v := wire.Member(i.Capabilities, capability)
	return v != nil && string(v) != "null"
}

var (
	// ErrNotSent is wrapped by the error of a request that was not sent. It can be sent to
	// another server.
	ErrNotSent = errors.New("not sent")

	// ErrForbidden is wrapped by the error of a request that the server refuses to carry out
	// for its sender, however often it is sent.
	ErrForbidden = errors.New("forbidden")

	// ErrUnknown is wrapped, with [ErrClosed], by the error of a call that may have taken effect and is not to be sent
	// again.
	ErrUnknown = errors.New("whether the call took effect is unknown, and it is not sent again")

	// ErrClosed is wrapped by the error of a request that was sent, if the session ended
	// before the answer came.
	ErrClosed = errors.New("session closed")

	// ErrOpenEvent is wrapped by the error of a request that was given up while the server's event
	// stream had an event without its end.
	ErrOpenEvent = errors.New("its event stream has an event without blank line, which would end it")
)

// An Error is a JSON-RPC error object as the other side sent it.
type Error struct {
	Code    int64           `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`
}

func (e *Error) Error() string { return fmt.Sprintf("%s (code %d)", e.Message, e.Code) }

// InvalidParams returns an error about the parameters of a request.
func InvalidParams(message string) error { return &Error{Code: CodeInvalidParams, Message: message} }

// Internal returns an error that is not the client's.
func Internal(message string) error { return &Error{Code: CodeInternal, Message: message} }

// NoResource returns the error of a request for a resource that no server has.
func NoResource(uri string) *Error {
	data := append(wire.AppendString([]byte(`{"uri":`), uri), '}')
	return &Error{Code: CodeInvalidParams, Message: "resource not found: no server knows " + uri, Data: data}
}

// JSON-RPC error codes.
const (
	CodeParse          = -32700
	CodeInvalidRequest = -32600
	CodeMethodNotFound = -32601
	CodeInvalidParams  = -32602
	CodeInternal       = -32603

	// CodeNoResource is the error of servers before 2026-07-28 for a resource that does not exist.
	CodeNoResource = -32002

	// CodeSelf and the member "metarouter": "self" in Data are the answer of a router that was
	// started by a router.
	CodeSelf = -32000
)
