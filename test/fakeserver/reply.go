package fakeserver

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/mcp-metarouter/metarouter/test/internal/protocol"
)

// mismatch returns an error if a header differs from the member of the body that it repeats.
func mismatch(r *http.Request, m protocol.Message) *rpcError {
	var version string
	json.Unmarshal(metaOf(m)[protocol.KeyVersion], &version)
	var p struct{ Name, URI string }
	json.Unmarshal(m.Params, &p)
	headers := map[string]string{"Mcp-Method": m.Method}
	if version != "" { // eraOf reports a missing version
		headers["MCP-Protocol-Version"] = version
	}
	switch m.Method {
	case "tools/call", "prompts/get":
		headers["Mcp-Name"] = p.Name
	case "resources/read":
		headers["Mcp-Name"] = p.URI
	}
	for name, want := range headers {
		if got := decodeHeader(r.Header.Get(name)); got != want {
			return newError(-32020, fmt.Sprintf("Header mismatch: %s is %q, the body says %q", name, got, want))
		}
	}
	return nil
}

// decodeHeader decodes a value in the Base64 form and returns any other value unchanged.
func decodeHeader(value string) string {
	inner, ok := strings.CutPrefix(value, "=?base64?")
	inner, ok2 := strings.CutSuffix(inner, "?=")
	b, err := base64.StdEncoding.DecodeString(inner)
	if !ok || !ok2 || err != nil {
		return value
	}
	return string(b)
}

func metaOf(m protocol.Message) map[string]json.RawMessage {
	var p struct {
		Meta map[string]json.RawMessage `json:"_meta"`
	}
	json.Unmarshal(m.Params, &p)
	return p.Meta
}

// refuse answers with an error before the message is handled.
func refuse(rw http.ResponseWriter, status int, id json.RawMessage, e *rpcError) {
	if id == nil {
		id = json.RawMessage("null")
	}
	rw.Header().Set("Content-Type", "application/json")
	rw.WriteHeader(status)
	fmt.Fprintf(rw, `{"jsonrpc":"2.0","id":%s,"error":%s}`, id, e.object)
}

// A reply writes the messages of one request: one JSON response, or a stream.
type reply struct {
	rw             http.ResponseWriter
	asJSON, modern bool
	push           func(line string)

	mu        sync.Mutex // guards rw and what follows
	streaming bool
}

func (a *reply) send(line string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var m protocol.Message
	json.Unmarshal([]byte(line), &m)
	isFailure := a.modern && !a.streaming && m.Error != nil
	switch {
	case m.Method == "" && (a.asJSON || isFailure):
		a.rw.Header().Set("Content-Type", "application/json")
		if a.modern {
			a.rw.WriteHeader(statusOf(m.Error))
		}
		io.WriteString(a.rw, line)
	case a.asJSON:
		a.push(line)
	default:
		if !a.streaming {
			a.streaming = true
			a.rw.Header().Set("Content-Type", "text/event-stream")
		}
		writeEvent(a.rw, line)
	}
}

// statusOf returns the HTTP status of an error in the modern era.
func statusOf(object json.RawMessage) int {
	var e struct{ Code int }
	json.Unmarshal(object, &e)
	switch e.Code {
	case -32601:
		return http.StatusNotFound
	case -32602, -32020, -32021, -32022:
		return http.StatusBadRequest
	}
	return http.StatusOK
}
