package clusternode

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"net"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/wire"
)

// A Stream is a connection between two nodes for one server, or for requests that a gateway passes on to another
// one. It carries MCP messages, one a line.
type Stream struct {
	net.Conn
	Server string // its name on the node that has it; "" for a gateway's requests
	Key    string // the public key of the other node
	Node   string // the name of the other node, which may be another node's later

	// Lapsed reports whether the other node may have given up the requests that it sent, since one of
	// the two was frozen or cut off. Such a request must not be sent to a server.
	Lapsed func() bool

	// Local returns a time of the other node's clock as a time of ours.
	Local func(time.Time) time.Time
}

// MetaKey is the member of _meta that the nodes add to requests and results, and take off again.
const MetaKey = "metarouter/node"

// A Request is the member of a request's _meta.
type Request struct {
	ID       string          `json:"id"` // of the call
	Origin   *session.Origin `json:"origin,omitempty"`
	Deadline int64           `json:"deadline,omitempty"` // Unix time in milliseconds by the sender's clock; 0 is no limit
}

// An Answer is the member of a result's _meta.
type Answer struct {
	Signature []byte `json:"signature,omitempty"` // of [Signed.Bytes]
	Degraded  bool   `json:"degraded,omitempty"`  // a stand-in answered
}

// Signed is the part of a call and its result that the node which ran the call signs.
type Signed struct {
	ID             string
	Owner, Caller  string // public keys: of the node with the server, and of the client's node
	Server, Tool   string // as the owner names them
	Params, Result json.RawMessage
}

// Bytes returns the bytes to sign.
func (s Signed) Bytes() []byte {
	arguments := sha256.Sum256(wire.Member(s.Params, "arguments"))
	parts := make([][]byte, 3)
	if wire.Pick(s.Result, parts, "content", "structuredContent", "isError") != nil { // one scan: a result may be long
		clear(parts)
	}
	result := sha256.New()
	for _, part := range parts {
		result.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
		result.Write(part)
	}
	b := []byte("metarouter result 2\n")
	for _, part := range [][]byte{[]byte(s.ID), []byte(s.Owner), []byte(s.Caller), []byte(s.Server), []byte(s.Tool), arguments[:], result.Sum(nil)} {
		b = append(binary.BigEndian.AppendUint64(b, uint64(len(part))), part...)
	}
	return b
}
