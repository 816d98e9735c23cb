package execute

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/content"
	"github.com/mcp-metarouter/metarouter/internal/prose"
	"github.com/mcp-metarouter/metarouter/internal/schema"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/registry"
)

// Node returns the node_id of this machine: its host name, or "local".
func Node() string {
	if name, err := os.Hostname(); err == nil {
		return name
	}
	return "local"
}

// A Provenance says how a result came about, as the members of its _meta. Its Path has the nodes, and then the IDs of all
// tools that were tried if another than the first one answered.
type Provenance struct {
	Trace    string    `json:"trace_id"`
	Tool     string    `json:"tool_name"`    // that answered, as its server names it
	Version  string    `json:"tool_version"` // of the tool's server, "" if unknown
	Server   string    `json:"server"`
	Node     string    `json:"node_id"` // see [Node]
	Path     []string  `json:"execution_path"`
	Verified bool      `json:"verified"` // a result of this node is not signed
	Degraded bool      `json:"degraded"`
	Checked  bool      `json:"arguments_checked"` // the arguments were validated against the tool's schema, and fit it
	Attempts int       `json:"attempts"`
	Latency  int64     `json:"latency_ms"`
	Time     time.Time `json:"timestamp"`
	Cached   bool      `json:"cached,omitempty"` // the result was used before

	ArgumentsRepaired bool   `json:"arguments_repaired,omitempty"` // the arguments as sent differ from the client's
	Repaired          string `json:"repaired,omitempty"`           // the repairs of the arguments and of the content
}

// localPath is the Path of a call that ran on this node.
var localPath = []string{"local"}

// NewProvenance returns the provenance of a result that is there now. trace is the trace's ID; with "", it is in the request's meta, or made.
func NewProvenance(t *registry.NormalizedTool, node string, began time.Time, trace string, meta json.RawMessage) Provenance {
	if trace == "" {
		trace = traceID(meta)
	}
	now := time.Now().UTC()
	return Provenance{
		Trace: trace, Tool: t.ServerName(), Server: t.Server, Node: node, Path: localPath, Latency: now.Sub(began).Milliseconds(), Time: now,
	}
}

// traceID returns the ID of the trace that a request's _meta names, or a new one.
func traceID(meta json.RawMessage) string {
	if id := session.TraceIn(meta).ID(); id != "" {
		return id
	}
	var id [16]byte
	rand.Read(id[:])
	return hex.EncodeToString(id[:])
}

// meta returns the members for the _meta of the execution's result.
func (x *execution) meta() json.RawMessage {
	d := &x.delivery
	p := NewProvenance(d.tool, x.e.Node(), x.began, x.trace, nil)
	p.Attempts, p.Checked, p.Cached, p.Repaired, p.ArgumentsRepaired = d.attempts, x.checked, x.cached, x.repaired, x.argued
	if ran := d.request.Ran; ran != nil {
		p.Verified, p.Degraded = ran.Verified, ran.Degraded
		if n := len(ran.Nodes); n > 0 {
			p.Node, p.Path = ran.Nodes[n-1], slices.Concat([]string{d.policy.Gateway}, ran.Nodes)
		}
	}
	if d.session != nil {
		p.Version = d.session.Info().Version
	} else { // as it was when the server was last listed
		p.Version = x.e.Registry.Snapshot().Offer(d.tool.Server).Version
	}
	if d.tool.ID != x.call.Tool.ID {
		p.Degraded = true
		for _, t := range x.targets[:x.tried] {
			if p.Path[len(p.Path)-1] != t.tool.ID { // replicas have one ID
				p.Path = append(p.Path, t.tool.ID)
			}
		}
	}
	return wire.Marshal(p)
}

// addMeta returns the server's result with our members in its _meta, and with its content repaired where that is needed.
func (x *execution) addMeta(raw json.RawMessage) Result {
	var found [4][]byte
	media, err := wire.PickMedia(raw, found[:], "_meta", "content", "structuredContent", "isError")
	theirs, shown, structured, flag := found[0], found[1], found[2], found[3]
	failed, odd := content.IsTrue(flag), flag != nil && !content.IsFlag(flag)
	if err != nil {
		return x.fail("server "+x.delivery.tool.Server+" answered with something that is no result object", nil)
	}
	r := Result{IsError: failed, Tool: x.delivery.tool}
	what := ""
	if odd || !content.Fits(shown, structured, media) {
		raw, what = content.Repair(toolsCall, raw)
	}
	if failed && !fitsOutput(x, structured) {
		raw = wire.DeleteMember(raw, "structuredContent")
		what = strings.TrimPrefix(what+"; structuredContent: left out, since that of this error does not fit the outputSchema", "; ")
	}
	if what != "" {
		x.repaired = prose.Clauses(x.repaired, what)
		if !x.cached {
			x.e.repairs.count(x.delivery.tool.Server, "results", what)
		}
	}
	ours := x.meta()
	if theirs == nil {
		r.JSON = wire.AddMember(raw, "_meta", ours)
	} else {
		if wire.IsObject(theirs) {
			ours = wire.Merge(ours, theirs)
		}
		r.JSON = wire.SetMember(raw, "_meta", ours)
	}
	r.Limit = resultLimit(x.delivery.tool, &x.delivery.policy, len(r.JSON))
	return r
}

// fitsOutput reports whether the structuredContent of an error, nil if it has none, is what the tool's outputSchema wants.
// Clients that compare it would not show the words of the error. The steps of a comparison are bounded.
func fitsOutput(x *execution, structured []byte) bool {
	output := wire.Member(x.delivery.tool.Definition, "outputSchema")
	if output == nil || !wire.IsObject(structured) {
		return true
	}
	compiled, err := schema.Compile(output)
	if err != nil {
		return false
	}
	faults, _, err := compiled.Validate(context.Background(), "structuredContent", structured)
	return err == nil && len(faults) == 0
}

// refuse returns a tool error that says why the arguments do not fit.
func (x *execution) refuse(faults []string) Result {
	result := x.fail(fmt.Sprintf("The arguments do not fit the schema of %s; nothing was called.\n- %s\nSchema: %s",
		x.delivery.tool.ID, strings.Join(faults, "\n- "), x.delivery.tool.InputSchema), nil)
	result.Mismatch = faults
	return result
}

// Fail returns the result of a call that no tool answered, because of err.
func (e *Executor) Fail(c Call, err error) Result {
	x := &execution{e: e, call: c, trace: traceID(c.Meta), began: time.Now(), delivery: delivery{tool: c.Tool}}
	return x.fail(err.Error(), err)
}

// fail returns a tool error of the router itself: no tool answered, because of err.
func (x *execution) fail(text string, err error) Result {
	return Result{IsError: true, Err: err, JSON: wire.AddMember(content.Text(text, nil, true), "_meta", x.meta())}
}

// resultLimit returns how many tokens of the tool's text a client gets at once, of a result of size bytes.
func resultLimit(t *registry.NormalizedTool, p *Policy, size int) int {
	if limit, pattern := forTool(p.ResultTokens, t.ServerName()); pattern != "" {
		return limit // whatever the tool declares
	}
	if p.MaxResultTokens == 0 {
		return 0
	}
	if size <= p.MaxResultTokens*content.TokenBytes { // a higher limit changes nothing
		return p.MaxResultTokens
	}
	var declared int
	if json.Unmarshal(wire.Member(wire.Member(t.Definition, "_meta"), "anthropic/maxResultSizeChars"), &declared) != nil {
		return p.MaxResultTokens
	}
	return max(p.MaxResultTokens, declared/content.TokenBytes)
}
