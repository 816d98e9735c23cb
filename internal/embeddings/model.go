// Package embeddings makes vectors of texts, by the model in the program or by an
// OpenAI-compatible API, and keeps the vectors of tools and of examples on disk.
//
// A [Store] has the vectors of texts by one [Model], a [Set] the vectors of all tools at one time. The
// answers of an API are bounded and checked. Every vector has unit length.
package embeddings

import (
	"context"
	"runtime"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/mcp-metarouter/metarouter/internal/encoder"
)

// TaskTime is how long a search waits for the vectors of its task.
const TaskTime = 150 * time.Millisecond

// A Model makes vectors of texts, until ctx ends.
type Model interface {
	// Name differs from the names of models with other vectors.
	Name() string

	// Embed returns the vectors of at most 32 texts, in their order; the store keeps them. A vector is nil if
	// the model can't read its text. With an error, some vectors are nil or missing.
	Embed(ctx context.Context, texts []string) ([]encoder.Vector, error)

	// Task returns the vectors of a task and its steps.
	Task(ctx context.Context, texts []string) ([]encoder.Vector, error)
}

// Builtin returns the model in the program. It uses one processor, since calls go on meanwhile.
func Builtin() Model { return builtin{encoder.Tool, "", 1} }

// Examples returns the model in the program for texts that are tasks themselves. It uses all processors.
func Examples() Model { return builtin{encoder.Task, " of examples", runtime.GOMAXPROCS(0)} }

type builtin struct {
	role       encoder.Role // of the texts of Embed
	name       string       // after the version
	processors int
}

// IsBuiltin reports whether m is the model in the program.
func IsBuiltin(m Model) bool {
	_, ok := m.(builtin)
	return ok
}

// Name implements [Model].
func (b builtin) Name() string { return encoder.Version + b.name }

// Embed implements [Model].
func (b builtin) Embed(ctx context.Context, texts []string) ([]encoder.Vector, error) {
	all := make([]encoder.Vector, len(texts))
	var g errgroup.Group
	g.SetLimit(b.processors)
	for i, text := range texts {
		g.Go(func() error {
			if ctx.Err() == nil {
				all[i] = encoder.Embedded().Encode(text, b.role)
			}
			return context.Cause(ctx)
		})
	}
	return all, g.Wait()
}

// Task implements [Model].
func (b builtin) Task(ctx context.Context, texts []string) ([]encoder.Vector, error) {
	return builtin{encoder.Task, "", 1}.Embed(ctx, texts)
}
