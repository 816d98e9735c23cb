package peer

import (
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"

	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/wire"
)

// Methods of the protocol that a link treats in a way of their own.
const (
	Discover    = "server/discover"
	Initialize  = "initialize"
	Initialized = "notifications/initialized" // ends a legacy handshake
	Cancelled   = "notifications/cancelled"
	listen      = "subscriptions/listen"
)

// A Link carries messages to a server. It hands the server's messages to
// [Conn.Receive].
type Link interface {
	// Send takes a message, and returns once its turn to be written has come. It
	// fails only if the message was not sent. It may set Abort and AbortCancels.
	Send(ctx context.Context, m *Outgoing) error
}

// An Outgoing is a message to a server.
type Outgoing struct {
	ID     int64           // of a request; 0 for other messages
	Method string          // "" for an answer
	Params json.RawMessage // as in Line
	Meta   json.RawMessage // the client's _meta; may be nil
	Line   []byte          // the whole message and a line end
	Unsent atomic.Bool     // set before the session ends if nothing of the message was sent

	Repeatable bool        // a request that may take effect twice
	OpenEvent  atomic.Bool // data of an event has come in answer to it, and no blank line that ends the event

	// Abort ends the exchange of a request. The link sets it, if it has an exchange for each; a cancellation has
	// the one of its request. Else it is nil.
	Abort context.CancelFunc

	AbortCancels bool // Abort cancels the request at the server, which gets no notification
}

// End ends the exchange of the request, if it has one.
func (o *Outgoing) End() {
	if o.Abort != nil {
		o.Abort()
	}
}

// A Reply ends a request: it is the server's response, or the reason why no response comes.
type Reply struct {
	Message wire.Message
	Err     error
}

// Result returns the result of the response. A JSON-RPC error is a
// [*session.Error].
func (r Reply) Result() (json.RawMessage, error) {
	switch {
	case r.Err != nil:
		return nil, r.Err
	case r.Message.Fault != nil && r.Message.Error != nil:
		return nil, errors.New("the server answered with an error that is " + r.Message.Fault.Error())
	case r.Message.Error == nil:
		return r.Message.Result, nil
	}
	e := new(session.Error)
	if err := json.Unmarshal(r.Message.Error, e); err != nil {
		return nil, &session.Error{Code: session.CodeInternal, Message: "the server answered with an error that is no JSON-RPC error object", Data: r.Message.Error}
	}
	return nil, e
}
