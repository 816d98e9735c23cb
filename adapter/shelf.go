package adapter

import (
	"context"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector"
)

// A shelf is what providers are alike in that hold their tools in a registry of their
// own: they are found, ranked and explained as the router's.
type shelf struct {
	name     string
	registry *registry.Registry
	selector *selector.Selector
	catchUp  func() // makes the registry say what there is now
}

func newShelf(name string, sessions selector.Sessions, log *zap.Logger) shelf {
	r := registry.New(log)
	return shelf{name, r, selector.New(r, sessions, selector.Node(), log), func() {}}
}

// Name returns the provider's name.
func (s *shelf) Name() string { return s.name }

// Tools returns the tools that there are now, by ID.
func (s *shelf) Tools() []*registry.NormalizedTool {
	s.catchUp()
	return s.registry.Tools()
}

// Tool returns the tool of that ID.
func (s *shelf) Tool(id string) (*registry.NormalizedTool, bool) { return s.registry.Tool(id) }

// FindByCapability returns the tools that bear the tag, by ID.
func (s *shelf) FindByCapability(tag string) []*registry.NormalizedTool {
	s.catchUp()
	return s.registry.FindByCapability(tag)
}

// Find ranks the tools that suit a query.
func (s *shelf) Find(ctx context.Context, q selector.Query) (selector.Ranking, error) {
	s.catchUp()
	return s.selector.Find(ctx, q)
}

// Select picks the tool for a query.
func (s *shelf) Select(ctx context.Context, q selector.Query) (selector.Selection, error) {
	s.catchUp()
	return s.selector.Select(ctx, q)
}

// Explain says of tools that were found for a task what their scores are made of.
func (s *shelf) Explain(ctx context.Context, task string, candidates []selector.Candidate) ([]selector.Explanation, error) {
	return s.selector.Explain(ctx, task, candidates)
}

// Execute runs one of the tools, as it is now.
func (s *shelf) Execute(ctx context.Context, c selector.Call) (selector.Result, error) {
	if c.Tool == nil || c.Tool.Server != s.name { // nor was it
		return selector.Result{}, noTool(s.name, idOf(c.Tool))
	}
	if now, ok := s.Tool(c.Tool.ID); ok {
		c.Tool = now
	}
	return s.selector.Execute(ctx, c)
}

func idOf(t *registry.NormalizedTool) string {
	if t == nil {
		return ""
	}
	return t.ID
}

// Changed returns a channel that is closed at the next change of the tools.
func (s *shelf) Changed() <-chan struct{} { return s.registry.Changed() }
