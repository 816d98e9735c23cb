// Package frame has the messages between nodes, as bytes.
//
// A frame is a header, which its sender signs, and a payload: bytes of a body, which the header of
// the frame that announced the body authenticates by a hash.
package frame

import (
	"encoding/json"

	"github.com/mcp-metarouter/metarouter/internal/session"
)

// Version is the version of frames that this router writes. It reads frames of the same major
// version, and ignores members of headers that it does not know.
const (
	Major = 1
	Minor = 0
)

// An Address is where frames to a running router go.
type Address struct {
	Key      string // the public key of the node
	Instance string // of this run of the router, random
}

// A Kind is the purpose of a frame.
type Kind string

// The gateway, which has the client, is on one side of a call; the node that runs it, on the other.
const (
	// From the gateway.
	Offer       Kind = "offer"       // Call: asks the node to run it; see Direct
	Start       Kind = "start"       // run the accepted offer that has this Nonce
	Cancel      Kind = "cancel"      // the gateway waits no longer
	Answer      Kind = "answer"      // to a Question: Body is the client's result, or Error
	Poll        Kind = "poll"        // is the call still running? answered by State, or by the Result again
	Done        Kind = "done"        // the gateway has the result; the node may forget it. See Ended
	Release     Kind = "release"     // the client Home has gone
	Tell        Kind = "tell"        // Message: a notification of the client Home for its servers
	Subscribe   Kind = "subscribe"   // to the resource URI of Server; answered by State or Error
	Unsubscribe Kind = "unsubscribe" // ends the subscription Call
	Level       Kind = "level"       // Message.Method is the least level of log messages that the gateway wants

	// From the node that runs the call.
	Accept   Kind = "accept"   // it will run the offer at Start with this Nonce
	Refuse   Kind = "refuse"   // it will never run the offer: Error
	State    Kind = "state"    // Running, or Unknown
	Notify   Kind = "notify"   // Message: a notification that belongs to the call
	Question Kind = "question" // Message: the server asks the client; answered by Answer
	Result   Kind = "result"   // Body is the result, or Error
	Event    Kind = "event"    // Message: a notification of Server that belongs to no call

	// From either side.
	Pull Kind = "pull" // send the bytes of the body Part.Body from Part.Offset on
	Part Kind = "part" // Payload is bytes of the body; it is not signed
	Ping Kind = "ping"
	Pong Kind = "pong"
	Beat Kind = "beat" // to all: I live; see Beating
)

// A Header is the content of a frame, but for the bytes of a body.
type Header struct {
	Kind Kind    `json:"kind"`
	From Address `json:"from"`
	To   Address `json:"to,omitzero"` // zero: all nodes
	Time int64   `json:"time"`        // when it was sent, by the sender's clock: Unix milliseconds

	Call  string `json:"call,omitempty"`  // the ID of the call or subscription, random; unique for ever
	Seq   uint64 `json:"seq,omitempty"`   // counts Notify, Question and Answer frames of a call on each side, from 1
	Nonce string `json:"nonce,omitempty"` // of Accept and Start; of Ping and Pong
	Home  string `json:"home,omitempty"`  // the session of the client at the gateway; "" without one

	// Ended are IDs of calls that the gateway has the results of: the node may forget them. Any
	// frame of the gateway may have them; a Done frame without a Call has nothing else.
	Ended []string `json:"ended,omitempty"`

	Server string `json:"server,omitempty"` // by the name that its own node has for it
	URI    string `json:"uri,omitempty"`

	Body    *Body         `json:"body,omitempty"` // the payload is its first bytes, or all
	Part    *Range        `json:"part,omitempty"`
	Offer   *CallOffer    `json:"offer,omitempty"`
	Result  *CallResult   `json:"result,omitempty"`
	Error   *Fault        `json:"error,omitempty"`
	Running bool          `json:"running,omitempty"` // of State; false: the node does not know the call, and will never run it
	Message *Notification `json:"message,omitempty"`
	Beat    *Beating      `json:"beat,omitempty"`
}

// A Body is a text that may be longer than a frame.
type Body struct {
	ID   string `json:"id"` // unique among the sender's bodies
	Size int64  `json:"size"`
	Sum  string `json:"sum"` // SHA-256 of the whole, hexadecimal
}

// A Range is a part of a body, or asks for one.
type Range struct {
	Body   string `json:"body"` // its ID
	Offset int64  `json:"offset"`
	Length int64  `json:"length,omitempty"` // of Pull: at most as many bytes are sent
}

// A CallOffer is a request that a node is asked to carry out. The Body of its frame is the params.
type CallOffer struct {
	Method       string          `json:"method"`
	Tool         string          `json:"tool,omitempty"`   // of tools/call, by the name that the node announced
	Direct       bool            `json:"direct,omitempty"` // it may be run more than once: run it without Start
	Timeout      int64           `json:"timeout_ms,omitempty"`
	Meta         json.RawMessage `json:"meta,omitempty"`
	Client       string          `json:"client,omitempty"` // the name that it gives itself
	Modern       bool            `json:"modern,omitempty"`
	Capabilities json.RawMessage `json:"capabilities,omitempty"` // of the client; nil without a client
	Origin       session.Origin  `json:"origin,omitzero"`
}

// A CallResult says which call a result is for, so that a signature of another one is worth nothing.
type CallResult struct {
	Server    string `json:"server"`
	Method    string `json:"method"`
	Tool      string `json:"tool,omitempty"`
	Arguments string `json:"arguments"` // SHA-256 of the params of the offer, hexadecimal
	Degraded  bool   `json:"degraded,omitempty"`
	Kept      bool   `json:"kept,omitempty"` // the client has a session of its own with the server
}

// A Fault is why there is no result.
type Fault struct {
	// Sent says that the request may have had an effect.
	Sent bool `json:"sent,omitempty"`
	// Own is the JSON-RPC error that the server answered with; nil if there is no answer.
	Own    *session.Error `json:"own,omitempty"`
	Reason string         `json:"reason,omitempty"` // if Own is nil
}

// A Notification is a message of a server, or of a client.
type Notification struct {
	ID     json.RawMessage `json:"id,omitempty"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params,omitempty"`
}

// A Beating is the state of a node, which it sends each second.
type Beating struct {
	Cluster  string                 `json:"cluster"`
	Node     string                 `json:"node"` // its name
	Version  string                 `json:"version"`
	Count    uint64                 `json:"count"`              // of beats in this run
	Epoch    uint64                 `json:"epoch"`              // grows with each connection to NATS
	Revision string                 `json:"revision,omitempty"` // identifies the announcement that is in force; "" if it shares nothing
	Leaving  bool                   `json:"leaving,omitempty"`  // it accepts no further calls
	Gone     bool                   `json:"gone,omitempty"`     // this is its last beat
	Load     map[string]ServerState `json:"load,omitempty"`     // by shared server
}

// A ServerState is how a shared server is at the moment.
type ServerState struct {
	State   string `json:"state"` // see package internal/status
	Calls   int    `json:"calls,omitempty"`
	Waiting int    `json:"waiting,omitempty"`
	Limit   int    `json:"limit,omitempty"` // of calls at once; 0 is no limit
}

// A Signer signs for a node.
type Signer interface {
	Sign(data []byte) ([]byte, error)
}
