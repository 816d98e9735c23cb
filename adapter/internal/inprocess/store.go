package inprocess

import (
	"context"
	"encoding/json"

	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector"
)

// A Store has a provider's tools in a registry. It finds, explains and runs them as the router does.
// Providers embed it for the methods of a ProviderAdapter.
type Store struct {
	name     string
	registry *registry.Registry
	selector *selector.Selector
	refresh  func()
}

// NewStore returns the store of a provider's registry, which the selector searches, too. refresh, unless
// nil, brings the registry up to date before each list and search.
func NewStore(name string, r *registry.Registry, s *selector.Selector, refresh func()) *Store {
	if refresh == nil {
		refresh = func() {}
	}
	return &Store{name, r, s, refresh}
}

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
	return s.selector.Check(ctx, t, args)
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
	return s.selector.Execute(ctx, c)
}

// Changed returns a channel that is closed at the next change of the tools.
func (s *Store) Changed() <-chan struct{} { return s.registry.Changed() }
