package mux

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/mcp-metarouter/metarouter/internal/inprocess"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/taglist"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/providers/internal/model"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector"
)

// Execute runs a tool of the Mux on its provider, or a similar tool on another provider;
// see [Mux].
func (m *Mux) Execute(ctx context.Context, c selector.Call) (selector.Result, error) {
	if c.Tool == nil {
		return selector.Result{}, inprocess.NoTool(m.Name(), "")
	}
	routes := *m.routes.Load()
	first, ok := routes[c.Tool.ID]
	if !ok { // it may be new
		m.adoptAll()
		routes = *m.routes.Load()
		first, ok = routes[c.Tool.ID]
	}
	if !ok {
		return selector.Result{}, inprocess.NoTool(m.Name(), c.Tool.ID)
	}
	if !m.enter() {
		return m.store.Fail(c, inprocess.ErrClosed), nil
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
		if !errors.Is(result.Err, session.ErrNotSent) && !tried.Repeatable() {
			break
		}
		fitting := m.store.Check(ctx, other, c.Arguments)
		if len(fitting.Faults) > 0 && !fitting.Unchecked {
			faults = append(faults, other.ID+" takes other arguments: "+fitting.Faults[0])
			continue
		}
		call := c
		call.Arguments = fitting.Arguments
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

// execute runs the tool on its provider. If the provider panics, or returns no result or an error that
// it should not return, the result is a failure. The error is one of an MCP server or of ctx.
func (m *Mux) execute(ctx context.Context, r route, c selector.Call) (result selector.Result, err error) {
	c.Tool = r.tool
	if reason := guard(func() { result, err = r.to.Execute(ctx, c) }); reason != nil {
		return m.store.Fail(c, fmt.Errorf("provider %q panicked: %v", r.to.name, reason)), nil
	}
	if _, refused := errors.AsType[*session.Error](err); refused || err != nil && ctx.Err() != nil {
		return selector.Result{}, err
	}
	if err == nil && !wire.IsObject(result.JSON) {
		err = cmp.Or(result.Err, errNoResult)
	}
	if err != nil {
		return m.store.Fail(c, err), nil
	}
	return result, nil
}

var errNoResult = errors.New("its provider returned no result")

// standIns returns the tools of other providers that may answer instead of t, in the providers'
// order: of each provider the tools of the same name or, if t is a language model, one model with
// all its capabilities. They do not include tools that may do more than t. Nothing stands in for a
// destructive tool.
func (m *Mux) standIns(t *registry.NormalizedTool, owner *source, routes map[string]route) []*registry.NormalizedTool {
	if t.Hints.IsDestructive() || t.Doubt != "" {
		return nil
	}
	alike, models := make(map[*source][]*registry.NormalizedTool), make(map[*source]*registry.NormalizedTool)
	for _, other := range m.Tools() {
		p := routes[other.ID].to
		switch {
		case p == owner, other.Hints.IsDestructive(), other.Doubt != "", t.Reads() && !other.Reads():
		case alikeNames(other, t):
			alike[p] = append(alike[p], other)
		case models[p] == nil && model.Is(t) && model.Is(other) && taglist.Count(other.Capabilities, t.Capabilities) == len(t.Capabilities):
			models[p] = other
		}
	}
	var found []*registry.NormalizedTool
	for _, p := range m.providers {
		if len(alike[p]) == 0 && models[p] != nil {
			alike[p] = append(alike[p], models[p])
		}
		found = append(found, alike[p]...)
	}
	return found
}

// alikeNames reports whether two tools have the same name, but for case and separators.
func alikeNames(a, b *registry.NormalizedTool) bool { return plain(a.Name) == plain(b.Name) }

// plain returns a name in lower case and without separators.
func plain(name string) string {
	return strings.Map(func(r rune) rune {
		if r == '_' || r == '-' || r == '.' || r == ' ' {
			return -1
		}
		return r
	}, strings.ToLower(name))
}
