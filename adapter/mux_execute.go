package adapter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector"
	"github.com/mcp-metarouter/metarouter/session"
)

// Execute runs a tool of the Mux, on the provider that has it or another one; see
// [Mux].
func (m *Mux) Execute(ctx context.Context, c selector.Call) (selector.Result, error) {
	routes := *m.routes.Load()
	first, ok := routes[idOf(c.Tool)]
	if !ok { // until now
		m.catchUp()
		routes = *m.routes.Load()
		first, ok = routes[idOf(c.Tool)]
	}
	if !ok {
		return selector.Result{}, noTool(m.name, idOf(c.Tool))
	}
	if !m.enter() {
		return m.selector.Fail(c, errClosed), nil
	}
	defer m.running.Done()
	result, err := m.execute(ctx, first, c)
	if err != nil || result.Err == nil {
		return m.note(result, nil, first), err
	}
	asked, faults := []string{c.Tool.ID}, []string{c.Tool.ID + ": " + result.Err.Error()}
	last, tried := first, c.Tool
	for _, other := range m.standIns(c.Tool, first.to, routes) {
		if ctx.Err() != nil {
			return selector.Result{}, context.Cause(ctx)
		}
		if !errors.Is(result.Err, session.ErrNotSent) && !tried.Hints.Repeatable() {
			break
		}
		call, wrong := c, []string(nil)
		if call.Arguments, wrong = m.selector.Fit(other, c.Arguments); len(wrong) > 0 {
			faults = append(faults, other.ID+" takes other arguments: "+wrong[0])
			continue
		}
		next := routes[other.ID]
		answer, err := m.execute(ctx, next, call)
		if err != nil {
			return selector.Result{}, err
		}
		result, last, tried = answer, next, other
		asked = append(asked, other.ID)
		if result.Err == nil {
			return m.note(result, asked, last), nil
		}
		faults = append(faults, other.ID+": "+result.Err.Error())
	}
	if len(faults) > 1 {
		text := wire.Marshal([]map[string]string{{"type": "text", "text": strings.Join(faults, "; ")}})
		result.JSON = wire.SetMember(result.JSON, "content", text)
	}
	return m.note(result, asked, last), nil
}

// execute runs the tool on its provider. One that panics, or returns an error that it
// should not, or no result, has not answered, and nobody knows what the call did unless
// the error says so. What is left of errors is that of a server, and that of ctx.
func (m *Mux) execute(ctx context.Context, r route, c selector.Call) (result selector.Result, err error) {
	c.Tool = r.tool
	defer func() {
		if reason := recover(); reason != nil {
			result, err = m.selector.Fail(c, fmt.Errorf("provider %q panicked: %v", r.to.name, reason)), nil
		}
	}()
	result, err = r.to.Execute(ctx, c)
	if _, refused := errors.AsType[*session.Error](err); refused || err != nil && ctx.Err() != nil {
		return selector.Result{}, err
	}
	if err == nil && !wire.IsObject(result.JSON) {
		err = cmp.Or(result.Err, errNoResult)
	}
	if err != nil {
		return m.selector.Fail(c, err), nil
	}
	return result, nil
}

var errNoResult = errors.New("its provider returned no result")

// standIns returns the tools of other providers that may answer instead of t, in the
// providers' order: of each those that bear the same name or, if t is a language model,
// one that bears all its capabilities. None that may do more than t is among them, and
// nothing stands in for what is declared to destroy.
func (m *Mux) standIns(t *registry.NormalizedTool, owner *muxed, routes map[string]route) []*registry.NormalizedTool {
	if t.Hints.IsDestructive() {
		return nil
	}
	alike, model := make(map[*muxed][]*registry.NormalizedTool), make(map[*muxed]*registry.NormalizedTool)
	for _, other := range m.Tools() {
		p := routes[other.ID].to
		switch {
		case p == owner, other.Hints.IsDestructive(), t.Hints.IsReadOnly() && !other.Hints.IsReadOnly():
		case selector.Alike(other, t):
			alike[p] = append(alike[p], other)
		case model[p] == nil && isModel(t) && isModel(other) && other.Bears(t.Capabilities) == len(t.Capabilities):
			model[p] = other
		}
	}
	var found []*registry.NormalizedTool
	for _, p := range m.providers {
		if len(alike[p]) == 0 && model[p] != nil {
			alike[p] = append(alike[p], model[p])
		}
		found = append(found, alike[p]...)
	}
	return found
}

// isModel reports whether the tool is a model of a [Chat].
func isModel(t *registry.NormalizedTool) bool {
	return slices.Contains(t.Capabilities, "ai") && slices.Contains(t.Capabilities, "chat") && string(t.InputSchema) == chatInput
}
