package embeddings

import (
	"context"
	"sync"

	"github.com/mcp-metarouter/metarouter/internal/encoder"
	"github.com/mcp-metarouter/metarouter/internal/vectors"
)

// A Model makes vectors of texts. Each vector has unit length.
type Model interface {
	// Name tells the model's vectors from those of others.
	Name() string

	// Embed returns the vectors of what tools do, in the order of the texts: at most 32.
	Embed(ctx context.Context, texts []string) ([]vectors.Vector, error)

	// Task returns the vectors of what somebody wants, within [TaskTime] or not at all.
	Task(ctx context.Context, texts []string) ([]vectors.Vector, error)
}

// Builtin returns the model in the program.
var Builtin = sync.OnceValue(func() Model { return builtin{encoder.Embedded()} })

type builtin struct{ model *encoder.Model }

// IsBuiltin reports whether m is the model in the program.
func IsBuiltin(m Model) bool {
	_, ok := m.(builtin)
	return ok
}

// Name implements [Model].
func (b builtin) Name() string { return encoder.Version }

// Embed implements [Model].
func (b builtin) Embed(ctx context.Context, texts []string) ([]vectors.Vector, error) {
	return b.encode(ctx, texts, encoder.Tool)
}

// Task implements [Model].
func (b builtin) Task(ctx context.Context, texts []string) ([]vectors.Vector, error) {
	return b.encode(ctx, texts, encoder.Task)
}

func (b builtin) encode(ctx context.Context, texts []string, role encoder.Role) ([]vectors.Vector, error) {
	all := make([]vectors.Vector, len(texts))
	for i, text := range texts {
		if ctx.Err() != nil {
			return all[:i], context.Cause(ctx)
		}
		all[i] = b.model.Encode(text, role)
	}
	return all, nil
}
