package adapter

import (
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
	if !m.enter() {
		return selector.Result{}, errClosed
	}
	defer m.running.Done()
	routes := *m.routes.Load()
	first, ok := routes[idOf(c.Tool)]
	if !ok {
		return selector.Result{}, noTool(m.name, idOf(c.Tool))
	}
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
			if _, refused := errors.AsType[*session.Error](err); refused || ctx.Err() != nil {
				return selector.Result{}, err
			}
			faults = append(faults, other.ID+": "+err.Error())
			continue
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

// execute runs the tool on its provider. A provider that panics has not answered, and
// nobody knows what the call did; one that says by an error that it did nothing has not
// answered either.
func (m *Mux) execute(ctx context.Context, r route, c selector.Call) (result selector.Result, err error) {
	c.Tool = r.tool
	defer func() {
		if reason := recover(); reason != nil {
			result, err = m.selector.Fail(c, fmt.Errorf("provider %q panicked: %v", r.to.name, reason)), nil
		}
	}()
	result, err = r.to.Execute(ctx, c)
	if err != nil && ctx.Err() == nil && errors.Is(err, session.ErrNotSent) {
		return m.selector.Fail(c, err), nil
	}
	return result, err
}

// standIns returns the tools of other providers that may answer instead of t, in the
// providers' order.
func (m *Mux) standIns(t *registry.NormalizedTool, owner *muxed, routes map[string]route) []*registry.NormalizedTool {
	var found []*registry.NormalizedTool
	tools := m.Tools()
	for _, p := range m.providers {
		if p == owner {
			continue
		}
		for _, other := range tools {
			if routes[other.ID].to == p && standsIn(other, t) {
				found = append(found, other)
			}
		}
	}
	return found
}

// standsIn reports whether a tool may answer instead of t: it bears the same name, or
// both are language models and it bears all the capabilities of t. One that only reads is not
// replaced by one that may do more.
func standsIn(other, t *registry.NormalizedTool) bool {
	if t.Hints.IsReadOnly() && !other.Hints.IsReadOnly() {
		return false
	}
	return selector.Alike(other, t) || isModel(t) && isModel(other) && other.Bears(t.Capabilities) == len(t.Capabilities)
}

// isModel reports whether the tool is a model of a [Chat].
func isModel(t *registry.NormalizedTool) bool {
	return slices.Contains(t.Capabilities, "ai") && slices.Contains(t.Capabilities, "chat") && string(t.InputSchema) == chatInput
}
