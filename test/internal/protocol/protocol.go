// Package protocol has the few facts of MCP that the fake server and the clients of the
// tests share. Both write messages with encoding/json: they use nothing of the program
// that they test.
package protocol

import "encoding/json"

// Modern is the first protocol version of the modern era.
const Modern = "2026-07-28"

// The keys of _meta that the modern era and its subscriptions use.
const (
	KeyVersion      = "io.modelcontextprotocol/protocolVersion"
	KeyCapabilities = "io.modelcontextprotocol/clientCapabilities"
	KeyClientInfo   = "io.modelcontextprotocol/clientInfo"
	KeyLogLevel     = "io.modelcontextprotocol/logLevel"
	KeyServerInfo   = "io.modelcontextprotocol/serverInfo"
	KeySubscription = "io.modelcontextprotocol/subscriptionId"
	KeyTasks        = "io.modelcontextprotocol/tasks"
)

// Message is any JSON-RPC message.
type Message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
}

// Encode encodes a value as JSON. It panics if the value cannot be encoded.
func Encode(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

// ToolName returns the name in a tool's definition, "" if it has none.
func ToolName(definition string) string {
	var d struct{ Name string }
	json.Unmarshal([]byte(definition), &d)
	return d.Name
}
