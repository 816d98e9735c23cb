package embeddings

import (
	"context"

	"github.com/mcp-metarouter/metarouter/internal/vectors"
)

const (
	maxTools = 20_000 // that get vectors
	sampled  = 64     // tools whose descriptions get vectors too
)

// A Tool is what the model gets of a tool.
type Tool struct {
	ID          string
	Name        string
	Description string
}

// A Set is the vectors of tools at one time, by one model. It is immutable.
type Set struct {
	tools        map[string]vectors.Vector
	descriptions map[string]vectors.Vector
}

// Tool returns the vector of the tool of that ID, nil if it has none.
func (s *Set) Tool(id string) vectors.Vector { return s.tools[id] }

// Descriptions returns the vectors of some tools' descriptions alone, by ID. They serve as tasks
// whose right tools are known.
func (s *Set) Descriptions() map[string]vectors.Vector { return s.descriptions }

// Build returns the vectors of the tools, and has the model make those that the store lacks.
func (s *Store) Build(ctx context.Context, tools []Tool) (*Set, error) {
	tools = tools[:min(len(tools), maxTools)]
	every := max(1, len(tools)/sampled)
	var texts []string
	for i, t := range tools {
		texts = append(texts, t.text())
		if i%every == 0 && t.Description != "" {
			texts = append(texts, t.Description)
		}
	}
	if err := s.Fill(ctx, texts); err != nil {
		return nil, err
	}
	set := &Set{tools: make(map[string]vectors.Vector, len(tools)), descriptions: make(map[string]vectors.Vector)}
	for i, t := range tools {
		set.tools[t.ID] = s.Vector(t.text())
		if i%every == 0 && t.Description != "" {
			set.descriptions[t.ID] = s.Vector(t.Description)
		}
	}
	return set, nil
}

func (t Tool) text() string { return t.Name + ": " + t.Description }
