package caller

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode"

	"github.com/mcp-metarouter/metarouter/cluster/internal/frame"
	"github.com/mcp-metarouter/metarouter/cluster/internal/transfer"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/wire"
)

const (
	// maxReason bounds the reasons of other nodes that are shown, in bytes.
	maxReason = 4 << 10

	// inline is up to which size, in bytes, an error goes in the header of a frame.
	inline = 16 << 10
)

// notSent returns the error of a request that was not run and will not be.
func notSent(format string, args ...any) error {
	return fmt.Errorf("%w: %w", session.ErrNotSent, fmt.Errorf(format, args...))
}

// unknown returns the error of a request that may have been run.
func unknown(format string, args ...any) error {
	return fmt.Errorf("%w: %w", session.ErrClosed, fmt.Errorf(format, args...))
}

// faultError returns the error that a node says a request has.
func faultError(node string, f *frame.Fault) error {
	switch {
	case f == nil:
		return unknown("node %q gave no reason", node)
	case f.Own != nil:
		return f.Own
	case f.Sent:
		return unknown("node %q: %s", node, shown(f.Reason))
	}
	return notSent("node %q: %s", node, shown(f.Reason))
}

// shown returns a text of another node as an error may have it.
func shown(reason string) string {
	if reason == "" {
		return "it gave no reason"
	}
	text := strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(reason[:min(len(reason), maxReason)], ""))
	return text
}

// longError returns an error as a frame has it: in the body if it is long.
func longError(own *session.Error, body string) (*frame.Fault, *transfer.Source) {
	if len(own.Message)+len(own.Data) <= inline {
		return &frame.Fault{Sent: true, Own: own}, nil
	}
	return &frame.Fault{Sent: true, Own: &session.Error{Code: own.Code}}, transfer.NewSource(body, wire.Marshal(own))
}

var errNoError = errors.New("its error is no JSON-RPC error")

// ownError returns the error of a server that was a body.
func ownError(data []byte) (*session.Error, error) {
	own := new(session.Error)
	if !isText(data) || json.Unmarshal(data, own) != nil {
		return nil, errNoError
	}
	return own, nil
}
