// Package host makes the calls and searches of scripts: each is one of their client's.
package host

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/mcp-metarouter/metarouter/internal/approval"
	"github.com/mcp-metarouter/metarouter/internal/exposure"
	"github.com/mcp-metarouter/metarouter/internal/script"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector"
)

// A Provider finds tools for scripts and runs them, as the router does.
type Provider interface {
	Snapshot() *registry.Snapshot
	Await(ctx context.Context, server string) error // returns when the tools of the server are known
	Find(ctx context.Context, q selector.Query) (selector.Ranking, error)
	Execute(ctx context.Context, c selector.Call) (selector.Result, error)
}

// A Run is a script and the client for which it runs.
type Run struct {
	script.Script

	ID   string        // of the run, for observers; Do makes it if it is ""
	Call selector.Call // has the client of each call; its Tool and Arguments are not used

	Waiting  func(bool)                  // see [script.Options]
	Progress func(done int, tool string) // is told how many calls have ended when one begins or ends; may be nil
	// Tool finds a tool by its name, for a client that may be asked to log in; nil finds it by its ID.
	Tool func(ctx context.Context, name string, from session.Client) (*registry.NormalizedTool, error)

	Find   func(ctx context.Context, q selector.Query) (selector.Ranking, error)               // finds tools; nil asks the provider
	Allow  func(t *registry.NormalizedTool) error                                              // its error is why the script may not call a tool; may be nil
	Called func(ctx context.Context, t *registry.NormalizedTool, r selector.Result, err error) // is told of each call that has ended; may be nil
	Linked func(server string, result json.RawMessage) json.RawMessage                         // returns a server's result with links as the client knows them; may be nil
}

// Do runs a script within limits. Every call of the script is one of p's.
func Do(ctx context.Context, e *script.Engine, p Provider, limits script.Limits, run Run) script.Outcome {
	run.Call.Meta = wire.DeleteMember(run.Call.Meta, "progressToken") // the progress is the script's
	if run.ID == "" {
		run.ID = fmt.Sprintf("%016x", rand.Uint64())
	}
	if run.Waiting != nil {
		run.Waiting(false)
	}
	o := script.Options{Limits: limits, Progress: run.Progress, Waiting: run.Waiting}
	run.Progress = nil
	h := &host{p: p, run: &run}
	outcome := e.Run(ctx, run.Script, h, o)
	for i, made := range outcome.Calls {
		t, ok := p.Snapshot().Tool(made.Tool)
		outcome.Calls[i].Reads = ok && t.Reads()
	}
	return outcome
}

// A host implements [script.Host].
type host struct {
	p   Provider
	run *Run
}

// Call implements [script.Host].
func (h *host) Call(ctx context.Context, c script.Call) (json.RawMessage, error) {
	from := h.from(ctx)
	tool, err := h.tool(ctx, c.Tool, from)
	if err != nil {
		return nil, err
	}
	if h.run.Allow != nil {
		if err := h.run.Allow(tool); err != nil {
			return nil, err
		}
	}
	call := h.run.Call
	call.Tool, call.Arguments, call.Script, call.Line, call.From = tool, c.Arguments, h.run.ID, c.Line, from
	result, err := h.p.Execute(context.WithValue(ctx, runKey{}, *h.run), call)
	if h.run.Called != nil {
		h.run.Called(ctx, tool, result, err)
	}
	err = cmp.Or(err, result.Err)
	if lost, ok := errors.AsType[*script.Lost](err); ok {
		return nil, lost
	}
	if errors.Is(err, session.ErrEnded) { // the client's process has sent the script again
		err = errLost
	}
	if err == errLost || errors.Is(err, session.ErrUnknown) {
		return nil, &script.Lost{Tool: tool.ID, Err: err}
	}
	switch refused, ok := errors.AsType[*approval.Refused](err); {
	case ok:
		return nil, fmt.Errorf("call %s on line %d needs approval: %w", tool.ID, c.Line, refused)
	case result.Err != nil:
		return nil, &script.CallError{Message: result.Text(), Retry: (errors.Is(err, session.ErrNotSent) || errors.Is(err, session.ErrClosed)) && !errors.Is(err, session.ErrForbidden)}
	case err != nil:
		return nil, err
	}
	if kind, _ := wire.String(wire.Member(result.JSON, "resultType")); kind == "input_required" {
		return nil, fmt.Errorf("server %q asks its user a question, which a script can't answer", tool.Server)
	}
	if h.run.Linked != nil && result.Tool != nil {
		return h.run.Linked(result.Tool.Server, result.JSON), nil
	}
	return result.JSON, nil
}

// from returns the client of a call; nil if there is none.
func (h *host) from(ctx context.Context) session.Client {
	from := h.run.Call.From
	if from == nil {
		return nil
	}
	if outer, ok := from.(*client); ok { // the script that calls this one
		from = outer.Client
	}
	return &client{from, ctx}
}

// tool finds a tool by its name.
func (h *host) tool(ctx context.Context, name string, from session.Client) (*registry.NormalizedTool, error) {
	if h.run.Tool != nil {
		return h.run.Tool(ctx, name, from)
	}
	t, ok := h.p.Snapshot().Tool(name)
	if server, _, named := strings.Cut(name, ":"); !ok && named { // it may not be listed yet
		err := h.p.Await(ctx, server)
		if u, is := errors.AsType[*status.UnavailableError](err); err != nil && (!is || u.State != "") {
			return nil, err // the server exists
		}
		t, ok = h.p.Snapshot().Tool(name)
	}
	if !ok {
		return exposure.OfTools(h.p.Snapshot().Tools(), exposure.Prefixed, "", "").Resolve(name)
	}
	return t, nil
}

// maxFound is how many tools a search of a script gives.
const maxFound = 10

// A foundTool is a tool in the answer of a search.
type foundTool struct {
	Tool        string  `json:"tool"` // for call
	Description string  `json:"description,omitempty"`
	Confidence  float64 `json:"confidence"`
}

// Search implements [script.Host].
func (h *host) Search(ctx context.Context, task string) (json.RawMessage, error) {
	find := h.p.Find
	if h.run.Find != nil {
		find = h.run.Find
	}
	ranking, err := find(ctx, selector.Query{Task: task, Kinds: []string{registry.KindTool}, Limit: maxFound})
	if err != nil {
		return nil, err
	}
	found := []foundTool{}
	for _, c := range ranking.Candidates {
		if c.Tool != nil {
			found = append(found, foundTool{c.Tool.ID, c.Tool.Description, c.Confidence})
		}
	}
	return json.Marshal(found)
}

// Describe implements [script.Host].
func (h *host) Describe(ctx context.Context, ids []string) (json.RawMessage, error) {
	var text strings.Builder
	if err := script.Each(ctx, ids, func(id string) error {
		tool, err := h.tool(ctx, id, h.from(ctx))
		if err == nil {
			text.WriteString(Declare(tool, tool.Description, script.Full) + "\n")
		}
		return err
	}); err != nil {
		return nil, fmt.Errorf("describe: %w", err)
	}
	return json.Marshal(text.String())
}

// Declare returns the declaration of a tool in TypeScript, with a description.
func Declare(t *registry.NormalizedTool, description string, d script.Detail) string {
	return script.Declare(script.DeclaredTool{ID: t.ID, Description: description, Reads: t.Reads(), Input: t.InputSchema, Output: wire.Member(t.Definition, "outputSchema")}, d)
}
