package inprocess

import (
	"cmp"
	"context"
	"encoding/json"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/internal/execute"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector"
)

// A Store has a provider's tools in a registry. It finds, explains and runs them as the router does.
// Providers embed it for the methods of a ProviderAdapter.
type Store struct {
	name     string
	registry *registry.Registry
	selector *selector.Selector
	executor *execute.Executor
	refresh  func()
}

// NewStore returns the store of a provider's registry, with tools that run in sessions. It makes the
// executor of the options. refresh, unless nil, brings the registry up to date before each list and
// search. [Store.Close] must be called.
func NewStore(name string, r *registry.Registry, sessions execute.Sessions, o selector.Options, refresh func()) *Store {
	if refresh == nil {
		refresh = func() {}
	}
	o.Executor = execute.New(execute.Options{Registry: r, Sessions: sessions, Log: cmp.Or(o.Log, zap.NewNop())})
	return &Store{name, r, selector.New(r, o), o.Executor, refresh}
}

// Run updates the index of the tools until ctx ends.
func (s *Store) Run(ctx context.Context) error { return s.selector.Run(ctx) }

// Close frees the index of the tools.
func (s *Store) Close() error { return s.selector.Close() }

// Fail returns the result of a call that no tool answered, because of err.
func (s *Store) Fail(c selector.Call, err error) selector.Result { return s.executor.Fail(c, err) }

// Name returns the provider's name.
func (s *Store) Name() string { return s.name }

// Tools returns the tools that the provider has now, sorted by ID.
func (s *Store) Tools() []*registry.NormalizedTool {
	s.refresh()
	return s.registry.Snapshot().Tools()
}

// Tool returns the tool with that ID.
func (s *Store) Tool(id string) (*registry.NormalizedTool, bool) {
	return s.registry.Snapshot().Tool(id)
}

// FindByCapability returns the tools with the tag, sorted by ID.
func (s *Store) FindByCapability(tag string) []*registry.NormalizedTool {
	s.refresh()
	return s.registry.Snapshot().FindByCapability(tag)
}

// Find ranks the tools for a query.
func (s *Store) Find(ctx context.Context, q selector.Query) (selector.Ranking, error) {
	s.refresh()
	return s.selector.Find(ctx, q)
}

// Select picks the tool for a query.
func (s *Store) Select(ctx context.Context, q selector.Query) (selector.Selection, error) {
	s.refresh()
	return s.selector.Select(ctx, q)
}

// Plan implements [selector.Provider].
func (s *Store) Plan(ctx context.Context, q selector.Query) ([]selector.Step, error) {
	s.refresh()
	return s.selector.Plan(ctx, q)
}

// Check implements [selector.Provider].
func (s *Store) Check(ctx context.Context, t *registry.NormalizedTool, args json.RawMessage) selector.Checked {
	return s.executor.Check(ctx, t, args)
}

// Explain returns the parts of the scores of tools that were found for a task.
func (s *Store) Explain(ctx context.Context, task string, candidates []selector.Candidate) ([]selector.Explanation, error) {
	return s.selector.Explain(ctx, task, candidates)
}

// Execute runs one of the tools, as it is defined now.
func (s *Store) Execute(ctx context.Context, c selector.Call) (selector.Result, error) {
	switch {
	case c.Tool == nil:
		return selector.Result{}, NoTool(s.name, "")
	case c.Tool.Server != s.name: // it was never this provider's
		return selector.Result{}, NoTool(s.name, c.Tool.ID)
	}
	if now, ok := s.Tool(c.Tool.ID); ok {
		c.Tool = now
	}
	return s.executor.Execute(ctx, c)
}

// Changed returns a channel that is closed at the next change of the tools.
func (s *Store) Changed() <-chan struct{} { return s.registry.Changed() }
