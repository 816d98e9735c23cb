package selector

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"strings"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/session"
)

// A run is what is noted of one execution, for the _meta of its result.
type run struct {
	tool     *registry.NormalizedTool
	node     string
	trace    string
	began    time.Time
	attempts int
	verified bool
	repaired string
	session  session.Session // of the last attempt; nil if it found none
}

func newRun(node string, c Call) *run {
	return &run{tool: c.Tool, node: node, trace: traceID(c.Meta), began: time.Now()}
}

// traceID returns the trace id of the client's traceparent (W3C Trace Context),
// or a new one.
func traceID(meta json.RawMessage) string {
	if parent, ok := wire.String(wire.Member(meta, "traceparent")); ok {
		if parts := strings.Split(parent, "-"); len(parts) == 4 && len(parts[1]) == 32 {
			return parts[1]
		}
	}
	var id [16]byte
	rand.Read(id[:])
	return hex.EncodeToString(id[:])
}

// executionMeta are our keys in a result's _meta.
type executionMeta struct {
	TraceID       string   `json:"trace_id"`
	ToolName      string   `json:"tool_name"`    // the server's own name of the tool
	ToolVersion   string   `json:"tool_version"` // the server's version
	Server        string   `json:"server"`
	NodeID        string   `json:"node_id"`
	ExecutionPath []string `json:"execution_path"`
	Verified      bool     `json:"verified"` // the arguments fit the tool's schema
	Degraded      bool     `json:"degraded"` // another than the chosen tool answered
	Attempts      int      `json:"attempts"`
	LatencyMS     int64    `json:"latency_ms"`
	Timestamp     string   `json:"timestamp"`          // RFC 3339, UTC
	Repaired      string   `json:"repaired,omitempty"` // what was done to the arguments
}

func (r *run) meta() []byte {
	m := executionMeta{
		TraceID: r.trace, ToolName: r.tool.ServerName(), Server: r.tool.Server, NodeID: r.node,
		ExecutionPath: []string{"local"}, Verified: r.verified, Attempts: r.attempts,
		LatencyMS: time.Since(r.began).Milliseconds(), Timestamp: time.Now().UTC().Format(time.RFC3339Nano),
		Repaired: r.repaired,
	}
	if r.session != nil {
		m.ToolVersion = r.session.Info().Version
	}
	return wire.Marshal(m)
}

// finish returns the server's result with our keys in its _meta.
func (r *run) finish(raw json.RawMessage) Result {
	var theirs []byte
	failed := false
	err := wire.Members(raw, func(key string, value []byte) bool {
		switch key {
		case "_meta":
			theirs = value
		case "isError":
			failed = string(value) == "true"
		}
		return true
	})
	if err != nil {
		return r.fail("server " + r.tool.Server + " answered with something that is no result object")
	}
	ours := r.meta()
	if theirs == nil {
		return Result{JSON: wire.AddMember(raw, "_meta", ours), IsError: failed}
	}
	if wire.IsObject(theirs) {
		merged := theirs
		wire.Members(ours, func(key string, value []byte) bool {
			merged = wire.SetMember(merged, key, value)
			return true
		})
		ours = merged
	}
	return Result{JSON: wire.SetMember(raw, "_meta", ours), IsError: failed}
}

// fail returns a tool error of our own.
func (r *run) fail(text string) Result {
	return Result{IsError: true, JSON: wire.Marshal(map[string]any{
		"content": []any{map[string]string{"type": "text", "text": text}},
		"isError": true,
		"_meta":   json.RawMessage(r.meta()),
	})}
}
