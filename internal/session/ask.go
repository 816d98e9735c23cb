package session

import (
	"encoding/json"

	"github.com/mcp-metarouter/metarouter/internal/wire"
)

// asks are the methods that a server may request from a client, each with the capability
// that the client must declare.
var asks = map[string]string{
	"sampling/createMessage": "sampling",
	"elicitation/create":     "elicitation",
	"roots/list":             "roots",
}

// IsAsk reports whether a server may request the method from a client.
func IsAsk(method string) bool { return asks[method] != "" }

// Answers reports whether a client with these capabilities answers the method.
func Answers(capabilities json.RawMessage, method string) bool {
	return IsAsk(method) && wire.IsObject(wire.Member(capabilities, asks[method]))
}

// AnswersAny reports whether a client with these capabilities answers any of these methods.
func AnswersAny(capabilities json.RawMessage) bool {
	for method := range asks {
		if Answers(capabilities, method) {
			return true
		}
	}
	return false
}
