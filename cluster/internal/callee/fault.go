package callee

import (
	"context"
	"errors"
	"strings"

	"github.com/mcp-metarouter/metarouter/cluster/internal/frame"
	"github.com/mcp-metarouter/metarouter/internal/session"
)

// maxReason bounds the reasons that are sent, in bytes.
const maxReason = 4 << 10

// faultOf returns an error of a request as the gateway gets it. An error that does not say that the
// request was not sent may have had an effect.
func faultOf(err error) *frame.Fault {
	if own, ok := errors.AsType[*session.Error](err); ok {
		return &frame.Fault{Sent: true, Own: own}
	}
	return &frame.Fault{Sent: !errors.Is(err, session.ErrNotSent), Reason: reasonOf(err)}
}

// reasonOf returns the text of an error, bounded.
func reasonOf(err error) string {
	text := err.Error()
	if errors.Is(err, context.Canceled) && text == context.Canceled.Error() {
		text = "the call was cancelled"
	}
	if len(text) > maxReason {
		text = text[:maxReason] + " …"
	}
	return strings.ToValidUTF8(text, "\uFFFD")
}

// errorOf returns the error that a gateway's answer to a question has.
func errorOf(f *frame.Fault) error {
	if f.Own != nil {
		return f.Own
	}
	return &session.Error{Code: session.CodeInternal, Message: "the client could not be asked: " + f.Reason[:min(len(f.Reason), maxReason)]}
}
