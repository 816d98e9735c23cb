package mcptest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/mcp-metarouter/metarouter/test/internal/protocol"
)

// A Notification is a notification of the server, byte for byte.
type Notification struct {
	Method string
	Params json.RawMessage
}

// An Error is a JSON-RPC error.
type Error struct {
	Code    int
	Message string
	Data    json.RawMessage
	Object  json.RawMessage `json:"-"` // the whole error object, byte for byte
	Status  int             `json:"-"` // the HTTP status, 0 over stdio
}

func (e *Error) Error() string { return fmt.Sprintf("JSON-RPC error %d: %s", e.Code, e.Message) }

// ErrEnded is the error of a request that the server did not answer before it ended.
var ErrEnded = errors.New("the server has ended")

// An Exchange is a request and its result.
type Exchange struct {
	ID     string
	Before []Notification // those that came after the request and before its answer, in wire order
	Result json.RawMessage
}

// An OnRequest answers a request of the server with a result or an error.
type OnRequest func(method string, params json.RawMessage) (result json.RawMessage, _ *Error)

// A Requester is a [Client], an [HTTPClient] or an [SSEClient].
type Requester interface {
	Request(ctx context.Context, method string, params any) (json.RawMessage, error)
}

// List asks for every page of a list and returns the items, which are in the member of the
// results.
func List(ctx context.Context, c Requester, method, member string) ([]json.RawMessage, error) {
	var all []json.RawMessage
	for params := json.RawMessage(`{}`); ; {
		result, err := c.Request(ctx, method, params)
		if err != nil {
			return nil, err
		}
		var page map[string]json.RawMessage
		if err := json.Unmarshal(result, &page); err != nil {
			return nil, fmt.Errorf("decode %s: %w", method, err)
		}
		var items []json.RawMessage
		var cursor *string
		if err := json.Unmarshal(page[member], &items); err != nil {
			return nil, fmt.Errorf("decode %s of %s: %w", member, method, err)
		}
		all = append(all, items...)
		if json.Unmarshal(page["nextCursor"], &cursor); cursor == nil {
			return all, nil
		}
		params = protocol.Encode(map[string]string{"cursor": *cursor})
	}
}

// Tools asks for every page of tools/list and returns the definitions.
func Tools(ctx context.Context, c Requester) ([]json.RawMessage, error) {
	return List(ctx, c, "tools/list", "tools")
}

// ToolNames asks for every page of tools/list and returns the names, "" for a tool without
// a name.
func ToolNames(ctx context.Context, c Requester) ([]string, error) {
	tools, err := Tools(ctx, c)
	if err != nil {
		return nil, err
	}
	names := make([]string, len(tools))
	for i, definition := range tools {
		names[i] = protocol.ToolName(string(definition))
	}
	return names, nil
}

func newError(object json.RawMessage, status int) *Error {
	e := &Error{Object: object, Status: status}
	json.Unmarshal(object, e)
	return e
}

// message returns the text of a request or, if id is "", of a notification.
func message(id, method string, params json.RawMessage) string {
	text := `{"jsonrpc":"2.0"`
	if id != "" {
		text += `,"id":` + id
	}
	text += `,"method":` + string(protocol.Encode(method))
	if params != nil {
		text += `,"params":` + string(params)
	}
	return text + "}"
}

// response returns the answer to a request of the server. A nil f answers ping only.
func response(m protocol.Message, f OnRequest) string {
	var result json.RawMessage
	e := &Error{Code: -32601, Message: "Method not found"}
	switch {
	case f != nil:
		result, e = f(m.Method, m.Params)
	case m.Method == "ping":
		result, e = json.RawMessage(`{}`), nil
	}
	if e != nil {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%s}}`, m.ID, e.Code, protocol.Encode(e.Message))
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
}

// callParams returns the parameters of tools/call. Nil arguments become an empty object.
func callParams(tool string, arguments any) json.RawMessage {
	if arguments == nil {
		arguments = json.RawMessage(`{}`)
	}
	return json.RawMessage(`{"name":` + string(protocol.Encode(tool)) + `,"arguments":` + string(marshal(arguments)) + `}`)
}

const clientInfo = `{"name":"mcptest","version":"1"}`

func initializeParams(declared json.RawMessage) json.RawMessage {
	return json.RawMessage(`{"protocolVersion":"2025-11-25","capabilities":` + string(orEmpty(declared)) + `,"clientInfo":` + clientInfo + `}`)
}

// withModernMeta adds the members of _meta that every modern request has. Members that the
// parameters have remain.
func withModernMeta(params, declared json.RawMessage) json.RawMessage {
	members := map[string]json.RawMessage{}
	json.Unmarshal(params, &members)
	meta := map[string]json.RawMessage{
		protocol.KeyCapabilities: orEmpty(declared),
		protocol.KeyClientInfo:   json.RawMessage(clientInfo),
		protocol.KeyVersion:      protocol.Encode(protocol.Modern),
	}
	json.Unmarshal(members["_meta"], &meta)
	members["_meta"] = protocol.Encode(meta)
	return protocol.Encode(members)
}

func orEmpty(object json.RawMessage) json.RawMessage {
	if object == nil {
		return json.RawMessage(`{}`)
	}
	return object
}

// marshal encodes a value, but leaves nil and raw JSON unchanged.
func marshal(v any) json.RawMessage {
	switch v := v.(type) {
	case nil:
		return nil
	case json.RawMessage:
		return v
	}
	return protocol.Encode(v)
}
