package selector

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
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
	until    time.Time // when the time of all attempts at tool is up; zero until the first
	again    bool      // what may have taken effect is sent again
	verified bool
	repaired string
	path     []string        // the IDs of the tools that were tried
	cached   bool            // the result was there already
	session  session.Session // of the last attempt; nil if it found none
	version  string          // of the tool, if it is no server's

	catalog *registry.Registry // says a server's version where no session does
}

// Node returns what node_id says of this machine: its host name.
func Node() string {
	if name, err := os.Hostname(); err == nil {
		return name
	}
	return "local"
}

// An Unrouted is a call that reached no server: of one of the router's own tools, or
// of a server that could not be called.
type Unrouted struct {
	Tool     *registry.NormalizedTool
	Node     string // see [Node]
	Version  string // of the tool, "" if unknown
	Began    time.Time
	Request  json.RawMessage // the client's _meta, nil if there is none
	Trace    string          // the trace's id; "" for that of Request, or else a new one
	Attempts int
	Verified bool // the arguments fit the tool's schema
}

// Meta returns what [Selector.Execute] would write into the result's _meta, an
// object.
func (u Unrouted) Meta() json.RawMessage {
	r := run{
		tool: u.Tool, node: u.Node, trace: u.Trace, began: u.Began,
		attempts: u.Attempts, verified: u.Verified, version: u.Version,
	}
	if r.trace == "" {
		r.trace = traceID(u.Request)
	}
	return r.meta()
}

func (s *Selector) newRun(c Call) *run {
	return &run{tool: c.Tool, node: s.node, trace: traceID(c.Meta), began: time.Now(), catalog: s.registry}
}

// toolVersion returns that of the tool's server, as it says or said when it was last
// listed.
func (r *run) toolVersion() string {
	switch {
	case r.session != nil:
		return r.session.Info().Version
	case r.catalog != nil:
		return r.catalog.Snapshot().Offer(r.tool.Server).Version
	}
	return r.version
}

// turn goes on with another choice, whose server has its own time.
func (r *run) turn(t *registry.NormalizedTool) {
	r.tool, r.until = t, time.Time{}
	r.path = append(r.path, t.ID)
}

// degraded reports whether another tool than the chosen one was tried last.
func (r *run) degraded() bool { return len(r.path) > 0 && r.path[len(r.path)-1] != r.path[0] }

// traceID returns the id of the trace that a request's _meta names, or a new one.
func traceID(meta json.RawMessage) string {
	if id := session.TraceIn(meta).ID(); id != "" {
		return id
	}
	var id [16]byte
	rand.Read(id[:])
	return hex.EncodeToString(id[:])
}

// meta returns our keys in a result's _meta, an object. It is written by hand: it
// is part of every call.
func (r *run) meta() []byte {
	now := time.Now()
	b := make([]byte, 0, 384)
	b = appendText(b, `{"trace_id":`, r.trace)
	b = appendText(b, `,"tool_name":`, r.tool.ServerName())
	b = appendText(b, `,"tool_version":`, r.toolVersion())
	b = appendText(b, `,"server":`, r.tool.Server)
	b = appendText(b, `,"node_id":`, r.node)
	b = append(b, `,"execution_path":["local"`...)
	if r.degraded() {
		for _, id := range r.path {
			b = appendText(b, `,`, id)
		}
	}
	b = append(b, `],"verified":`...)
	b = strconv.AppendBool(b, r.verified) // the arguments fit the tool's schema
	b = append(b, `,"degraded":`...)
	b = strconv.AppendBool(b, r.degraded()) // another than the chosen tool answers
	b = append(b, `,"attempts":`...)
	b = strconv.AppendInt(b, int64(r.attempts), 10)
	b = append(b, `,"latency_ms":`...)
	b = strconv.AppendInt(b, now.Sub(r.began).Milliseconds(), 10)
	b = append(b, `,"timestamp":"`...)
	b = now.UTC().AppendFormat(b, time.RFC3339Nano)
	b = append(b, '"')
	if r.cached {
		b = append(b, `,"cached":true`...)
	}
	if r.repaired != "" { // what was done to the arguments
		b = appendText(b, `,"repaired":`, r.repaired)
	}
	return append(b, '}')
}

func appendText(b []byte, member, text string) []byte {
	return wire.AppendString(append(b, member...), text)
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
		return Result{JSON: wire.AddMember(raw, "_meta", ours), IsError: failed, Tool: r.tool}
	}
	if wire.IsObject(theirs) {
		merged := theirs
		wire.Members(ours, func(key string, value []byte) bool {
			merged = wire.SetMember(merged, key, value)
			return true
		})
		ours = merged
	}
	return Result{JSON: wire.SetMember(raw, "_meta", ours), IsError: failed, Tool: r.tool}
}

// refuse returns a tool error that says how the arguments do not fit.
func (r *run) refuse(faults []string) Result {
	result := r.fail(fmt.Sprintf("The arguments do not fit the schema of %s; nothing was called.\n- %s\nSchema: %s",
		r.tool.ID, strings.Join(faults, "\n- "), r.tool.InputSchema))
	result.Mismatch = faults
	return result
}

// Fail returns the result of a call that no tool answered, because of err.
func (s *Selector) Fail(c Call, err error) Result {
	r := s.newRun(c).fail(err.Error())
	r.Err = err
	return r
}

// fail returns a tool error of our own.
func (r *run) fail(text string) Result {
	return Result{IsError: true, JSON: wire.Marshal(map[string]any{
		"content": []any{map[string]string{"type": "text", "text": text}},
		"isError": true,
		"_meta":   json.RawMessage(r.meta()),
	})}
}
