package session

import (
	"encoding/json"

	"github.com/mcp-metarouter/metarouter/internal/wire"
)

// asks are the requests that a server may make of a client, and the capability
// by which a client says that it answers them.
var asks = map[string]string{
	"sampling/createMessage": "sampling",
	"elicitation/create":     "elicitation",
	"roots/list":             "roots",
}

// IsAsk reports whether the method is one that a server may ask of a client.
func IsAsk(method string) bool { return asks[method] != "" }

// Answers reports whether a client of these capabilities answers the method.
func Answers(capabilities json.RawMessage, method string) bool {
	return IsAsk(method) && wire.IsObject(wire.Member(capabilities, asks[method]))
}

// AnswersAny reports whether a client of these capabilities can be asked for
// anything.
func AnswersAny(capabilities json.RawMessage) bool {
	for method := range asks {
		if Answers(capabilities, method) {
			return true
		}
	}
	return false
}
