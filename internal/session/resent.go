package session

import (
	"encoding/json"

	"github.com/mcp-metarouter/metarouter/internal/wire"
)

// Resent is the member of _meta by which the process of a client marks a message that it has sent
// before, to a router that has ended since. Its value is true.
const Resent = "metarouter/resent"

// MetaRequest is the member of _meta by which another node says to which request a log message belongs:
// the id of the request.
const MetaRequest = "metarouter/request"

// IsResent reports whether a _meta has the mark. meta may be nil.
func IsResent(meta json.RawMessage) bool {
	return meta != nil && string(wire.Member(meta, Resent)) == "true"
}

const ended = "the router ended while the request was under way; whether it was carried out is not known"

var (
	// ErrEnding answers a request that is under way when its router ends.
	ErrEnding = &Error{Code: CodeInternal, Message: ended}

	// ErrEnded answers a request that may have been carried out by a router that has ended.
	ErrEnded = &Error{Code: CodeInternal, Message: ended + "; another router has taken over: try again if that does no harm"}
)
