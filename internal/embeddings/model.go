// Package embeddings makes vectors of texts, by the model in the program or by an
// OpenAI-compatible API, and keeps the vectors of tools on disk.
//
// A [Store] has the vectors of texts by one [Model], a [Set] the vectors of all tools at one time. The
// answers of an API are bounded and checked. Every vector has unit length.
package embeddings

import (
	"context"
	"runtime"
	"sync"
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

	// Embed returns the vectors of texts that describe tools, in their order: at most 32. A vector is
	// nil if the model can't read its text. With an error, it returns the vectors of the first texts.
	Embed(ctx context.Context, texts []string) ([]encoder.Vector, error)

	// Task returns the vectors of a task and its steps.
	Task(ctx context.Context, texts []string) ([]encoder.Vector, error)
}

// Builtin returns the model in the program.
var Builtin = sync.OnceValue(func() Model { return builtin{encoder.Embedded(), encoder.Tool, ""} })

// Examples returns the model in the program for texts that are tasks themselves.
var Examples = sync.OnceValue(func() Model { return builtin{encoder.Embedded(), encoder.Task, " of examples"} })

type builtin struct {
	model *encoder.Model
	role  encoder.Role // of the texts of Embed
	name  string       // after the version
}

// IsBuiltin reports whether m is the model in the program.
func IsBuiltin(m Model) bool {
	_, ok := m.(builtin)
	return ok
}

// Name implements [Model].
func (b builtin) Name() string { return encoder.Version + b.name }

// Embed implements [Model]. It uses all processors.
func (b builtin) Embed(ctx context.Context, texts []string) ([]encoder.Vector, error) {
	all := make([]encoder.Vector, len(texts))
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i, text := range texts {
		g.Go(func() error {
			all[i] = b.model.Encode(text, b.role)
			return nil
		})
	}
	_ = g.Wait()
	return all, context.Cause(ctx)
}

// Task implements [Model].
func (b builtin) Task(ctx context.Context, texts []string) (all []encoder.Vector, err error) {
	for _, text := range texts {
		if ctx.Err() != nil {
			return all, context.Cause(ctx)
		}
		all = append(all, b.model.Encode(text, encoder.Task))
	}
	return all, nil
}
