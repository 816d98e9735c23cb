package peer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strconv"

	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/wire"
)

// The keys in _meta that make a request a modern one.
const (
	metaVersion      = "io.modelcontextprotocol/protocolVersion"
	metaCapabilities = "io.modelcontextprotocol/clientCapabilities"
	metaClient       = "io.modelcontextprotocol/clientInfo"
	MetaLogLevel     = "io.modelcontextprotocol/logLevel"
)

// stamp returns the parameters of the request with the _meta that the server's era
// asks for. own is for every request to a modern server, and nil for a
// legacy one. A modern server gets the client's capabilities, a legacy one no key of
// the modern era. The progress token becomes the request's id, since tokens of
// several clients may be equal; the client's own is returned.
func stamp(own json.RawMessage, roots Roots, r session.Request, id int64) (params, token json.RawMessage) {
	meta := []byte{'{'}
	given := make(map[string]bool)
	for key, value := range wire.All(r.Meta) {
		switch key {
		case metaVersion, metaCapabilities, metaClient, MetaLogLevel:
			if own == nil {
				continue
			}
			if given[key] = true; key == metaCapabilities && r.From != nil {
				value = roots.Shown(value)
			}
		case "progressToken":
			if r.From != nil {
				token, value = value, strconv.AppendInt(nil, id, 10)
			}
		}
		meta = wire.AppendMember(meta, key, value)
	}
	if r.From != nil && own != nil && !given[metaCapabilities] {
		given[metaCapabilities] = true
		meta = wire.AppendMember(meta, metaCapabilities, roots.Shown(r.From.Capabilities()))
	}
	for key, value := range wire.All(own) {
		if !given[key] {
			meta = wire.AppendMember(meta, key, value)
		}
	}
	if len(meta) == 1 {
		return r.Params, token
	}
	return withMeta(r.Params, append(meta, '}')), token
}

// withMeta returns parameters that have no _meta with one.
func withMeta(params, meta json.RawMessage) json.RawMessage {
	return wire.AddMember(wire.OrEmpty(params), "_meta", meta)
}

// asksInput reports whether the result of a modern server asks its client for input.
func asksInput(r session.Request, result json.RawMessage) bool {
	return r.From != nil &&
		bytes.Contains(result, []byte(`"input_required"`)) &&
		string(wire.Member(result, "resultType")) == `"input_required"`
}

// allowRound counts the questions in a result, and reports whether the entry answers one: for
// roots. An error means that a rule forbids one of them.
func (q *Questions) allowRound(ctx context.Context, result json.RawMessage) (fixed bool, err error) {
	questions, roots := 0, 0
	for _, value := range wire.All(wire.Member(result, "inputRequests")) {
		method, _ := wire.String(wire.Member(value, "method"))
		var rule error
		switch {
		case method == "roots/list":
			if roots++; roots > 1 {
				rule = errRoots
			}
		case questions == maxAsked:
			rule = errTooMany
		default:
			questions++
			rule = q.conn.host.Limits.take(ctx)
		}
		if rule != nil {
			_, err := q.refuse(method, rule)
			return false, err
		}
	}
	return roots > 0 && q.conn.host.Roots != nil, nil
}

// answerRound sends the questions in the result to the client one by one, and returns
// the parameters with its answers, for the next round of the request. declined counts
// the declined ones of all rounds.
func (q *Questions) answerRound(ctx context.Context, r session.Request, result json.RawMessage, declined *int) (json.RawMessage, error) {
	requests, state := wire.Member(result, "inputRequests"), wire.Member(result, "requestState")
	if !wire.IsObject(requests) && state == nil {
		return nil, errors.New("the server asked for input and did not say which")
	}
	answers := []byte{'{'}
	for key, value := range wire.All(requests) {
		method, _ := wire.String(wire.Member(value, "method"))
		if !session.IsAsk(method) {
			return nil, session.Internal("the server asked the client for " + strconv.Quote(method) + ", which no client answers")
		}
		var answer json.RawMessage
		var err error
		switch roots, _ := q.conn.host.Roots.answer(r.From); {
		case method == "roots/list" && roots != nil:
			answer = roots
		case method != "roots/list" && *declined >= maxDeclined:
			answer, err = q.refuse(method, errDeclined)
		default:
			answer, err = r.From.Ask(ctx, q.conn.host.Server, session.Message{Method: method, Params: wire.Member(value, "params")})
		}
		if err != nil {
			return nil, err
		}
		if isDeclined(method, answer, nil) {
			*declined++
		}
		answers = wire.AppendMember(answers, key, answer)
	}
	params := wire.SetMember(wire.OrEmpty(r.Params), "inputResponses", append(answers, '}'))
	if state == nil {
		return wire.DeleteMember(params, "requestState"), nil
	}
	return wire.SetMember(params, "requestState", state), nil
}
