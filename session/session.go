// Package session holds the one interface between whoever keeps an MCP server
// alive and whoever uses it. It is a leaf: it imports nothing of ours.
//
// A Session is one initialized connection to one MCP server. Whether a child
// process, a remote HTTP endpoint or another node answers is not its user's
// concern. Parameters and results travel as the bytes that the other side
// wrote, so that nothing of a result is lost on its way to a client.
package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
)

// Protocol revisions, oldest first. Revisions before [Modern] open with
// initialize and have sessions (the legacy era); from it on each request
// stands for itself (the modern era).
const (
	Oldest       = "2024-11-05"
	LatestLegacy = "2025-11-25"
	Modern       = "2026-07-28"
)

// A Session is an initialized connection to an MCP server. All methods may be
// called by many goroutines at once.
type Session interface {
	// Call sends a request and waits for its result, which is the server's own
	// bytes and must not be modified. When ctx ends first, the server is told
	// that the request was cancelled, and Call returns the cause.
	//
	// A JSON-RPC error from the server is an *[Error] with its code, message and
	// data as sent. Any other error wraps [ErrNotSent] if the request never left,
	// or [ErrClosed] if the session ended before the answer came.
	Call(ctx context.Context, r Request) (json.RawMessage, error)

	// Notify sends a notification. It does not wait for the server.
	Notify(ctx context.Context, method string, params json.RawMessage) error

	// Subscribe asks the server to say when the resource changes, which it does
	// with notifications/resources/updated, until cancel is called.
	Subscribe(ctx context.Context, uri string) (cancel func(), err error)

	// Listen has f called with each notification that the server sends and that
	// belongs to no request, in the order of the wire: all that came before a
	// result has been handed to f when Call returns that result. f runs on the
	// reading goroutine and must not block. stop ends it.
	Listen(f func(Message)) (stop func())

	// Done is closed when the session has ended.
	Done() <-chan struct{}

	// Info says who the server is. It does not change.
	Info() Info
}

// A Request is what is asked of a server.
type Request struct {
	Method string
	Params json.RawMessage // an object without _meta and without line ends; nil if absent
	Meta   json.RawMessage // what the client says in _meta, an object; nil if absent
	From   Client          // on whose behalf; nil for the router's own
}

// A Client is on whose behalf a request is made: one request of a client of the
// router, or its home. All methods may be called by many goroutines at once.
type Client interface {
	// Home is the client's session, to which belongs what concerns no one
	// request. It is the same for all requests of a client, and its own home;
	// nil if there is none, as with the modern era over HTTP. Homes can be
	// compared.
	Home() Client

	// Modern reports whether the client speaks the modern era: it answers
	// input_required results itself.
	Modern() bool

	// Capabilities is the client's capabilities object, in which a server sees
	// what it may ask.
	Capabilities() json.RawMessage

	// Notify is given what the server says because of the request, in the order
	// of the wire and before the result: progress, with the client's own token,
	// and log messages. It must not block.
	Notify(server string, m Message)

	// Ask puts a request of the server to the client and returns the client's
	// result, or its error as an *[Error].
	Ask(ctx context.Context, server string, m Message) (json.RawMessage, error)
}

// A Message is what a server sends unasked: a notification, or a request if ID
// is set.
type Message struct {
	ID     json.RawMessage // as sent: a number or a string; nil for a notification
	Method string
	Params json.RawMessage // as sent; nil if absent
}

// Info is what a server said about itself when the session began.
type Info struct {
	ProtocolVersion string          // the revision agreed on, such as "2025-11-25"
	Name, Version   string          // serverInfo
	Title           string          // serverInfo.title, may be empty
	Instructions    string          // may be empty
	Capabilities    json.RawMessage // the server's capabilities object, as sent
	PID             int             // of the child process; 0 if there is none
	Remote          bool            // reached over HTTP
}

// Era returns "modern" for sessions of revision 2026-07-28 and later, else
// "legacy".
func (i Info) Era() string {
	if i.ProtocolVersion >= Modern {
		return "modern"
	}
	return "legacy"
}

// Has reports whether the server declared the capability, such as "tools".
func (i Info) Has(capability string) bool {
	var caps map[string]json.RawMessage
	if json.Unmarshal(i.Capabilities, &caps) != nil {
		return false
	}
	v, ok := caps[capability]
	return ok && string(v) != "null"
}

var (
	// ErrNotSent is wrapped by errors of requests that never reached the server
	// and may therefore be sent elsewhere.
	ErrNotSent = errors.New("not sent")

	// ErrClosed is wrapped by errors of requests that were sent to a server that
	// went away before it answered.
	ErrClosed = errors.New("session closed")
)

// An Error is a JSON-RPC error object, as the server sent it.
type Error struct {
	Code    int64           `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`
}

func (e *Error) Error() string { return fmt.Sprintf("%s (code %d)", e.Message, e.Code) }

// JSON-RPC error codes.
const (
	CodeParse          = -32700
	CodeInvalidRequest = -32600
	CodeMethodNotFound = -32601
	CodeInvalidParams  = -32602
	CodeInternal       = -32603
)
