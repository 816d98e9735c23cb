package session

import (
	"context"
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

type askedKey struct{}

// WithAsked returns a context for [Client.Ask]: the client calls asked once it has taken the question, and calls the
// function that asked returned when there is an answer.
func WithAsked(ctx context.Context, asked func() (answered func())) context.Context {
	return context.WithValue(ctx, askedKey{}, asked)
}

// Asked says that a client has taken a question, for the function of [WithAsked].
func Asked(ctx context.Context) (answered func()) {
	if asked, ok := ctx.Value(askedKey{}).(func() func()); ok {
		return asked()
	}
	return func() {}
}

// Sending tells a client that a request of its is about to be sent; repeatable says that the request may
// take effect twice. An error is why it is not sent, and wraps [ErrNotSent] if another server may get it: the client
// is taken to wait no more, or a request like it was sent before. from may be nil.
func Sending(from Client, repeatable bool) error {
	if of, ok := As[interface{ Sending(repeatable bool) error }](from); ok {
		return of.Sending(repeatable)
	}
	return nil
}
