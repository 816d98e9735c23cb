package adapter

import (
	"context"
	"reflect"
	"sync/atomic"

	"github.com/mcp-metarouter/metarouter/classify"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/execute"
	"github.com/mcp-metarouter/metarouter/selector"
)

// Parts are what a router consists of. They are for frontends of the router, such as the
// MCP server of package server. A program that hands out work needs only the [Router].
type Parts struct {
	*catalog
	*fleet
	*selector.Selector
	*executor
	router *Router
}

// An executor runs tools.
type executor = execute.Executor

// Parts returns what the router consists of.
func (r *Router) Parts() *Parts { return &Parts{r.catalog, r.fleet, r.selector, r.executor, r} }

// Classifier returns the classifier that sorts texts into the categories of the
// configuration, or into capability tags if it has none.
func (p *Parts) Classifier() *classify.Classifier { return p.router.sorting.now.Load() }

// Assistant returns the model behind an API that the configuration names for searches that are
// not sure, or nil if it names none. It is for Assistant of a [Query].
func (p *Parts) Assistant() selector.Assistant { return p.router.assistance.assistant() }

// Config returns the configuration in use. Servers that were turned on or off by hand are
// so in it.
func (p *Parts) Config() config.Config { return p.router.current.load().config }

// Audit records what administrators and principals do besides calls, with [Options].Audit.
func (p *Parts) Audit(e AuditEvent) { p.router.options.Audit.Record(e) }

// Edited returns a channel that is closed when another configuration is in use. Take it
// before Config, and no edit is missed.
func (p *Parts) Edited() <-chan struct{} { return p.router.current.load().replaced }

// Configured returns the configuration as its files have it.
func (p *Parts) Configured() config.Config { return p.router.current.load().file }

// Usage returns what was learned from use, or nil if the configuration turns that off.
func (p *Parts) Usage() *Usage { return p.router.learning.store.Load() }

// Tool returns the tool of that ID, "server:name".
func (p *Parts) Tool(id string) (*NormalizedTool, bool) { return p.router.registry.Snapshot().Tool(id) }

// Tools returns all tools, by ID.
func (p *Parts) Tools() []*NormalizedTool { return p.router.Tools() }

// Learn notes that a client called a tool after it had searched for a task; see
// [Router.Learn].
func (p *Parts) Learn(ctx context.Context, u selector.Use) { p.router.Learn(ctx, u) }

// Follow returns a function that returns what a configuration means to a frontend: what
// derive makes of the configuration in use, and a channel that is closed when another one
// is. The value is the same pointer until an edit makes it differ, and must not be modified.
func Follow[T any](p *Parts, derive func(config.Config) *T) func() (*T, <-chan struct{}) {
	type derived struct {
		value  *T
		edited <-chan struct{}
	}
	var last atomic.Pointer[derived]
	return func() (*T, <-chan struct{}) {
		edited := p.Edited()
		before := last.Load()
		if before != nil && before.edited == edited {
			return before.value, edited
		}
		next := &derived{derive(p.Config()), edited}
		if before != nil && reflect.DeepEqual(before.value, next.value) {
			next.value = before.value
		}
		last.Store(next)
		return next.value, edited
	}
}
