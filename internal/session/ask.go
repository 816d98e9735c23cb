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

// ShowsForms reports whether a client with these capabilities asks its person questions with a
// form to fill in. One that declares no kind of elicitation has forms.
func ShowsForms(capabilities json.RawMessage) bool {
	elicitation := wire.Member(capabilities, asks["elicitation/create"])
	return wire.IsObject(elicitation) && (wire.Member(elicitation, "url") == nil || wire.Member(elicitation, "form") != nil)
}

// OpensURLs reports whether a client with these capabilities shows its person a URL to open in a
// browser (elicitation of the mode "url").
func OpensURLs(capabilities json.RawMessage) bool {
	return wire.IsObject(wire.Member(wire.Member(capabilities, asks["elicitation/create"]), "url"))
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
