// Package selector picks the tool that suits a task. [Route] also runs it.
//
// [Selector.Find] finds candidates by words and by meaning, and ranks them with a
// confidence. If the confidence is too low, the answer says that it is not sure, or that no
// tool suits the task.
//
// Package text reads the task, rank scores the candidates, and internal/execute runs calls.
package selector

import (
	"cmp"
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/internal/encoder"
	"github.com/mcp-metarouter/metarouter/internal/execute"
	"github.com/mcp-metarouter/metarouter/internal/index"
	"github.com/mcp-metarouter/metarouter/internal/signal"
	"github.com/mcp-metarouter/metarouter/registry"
)

// A Selector picks tools from a registry. Its methods may be called by many goroutines at
// once.
type Selector struct {
	registry *registry.Registry
	index    *index.Indexes
	meanings *meanings
	executor *execute.Executor // nil without
	observer Observer          // nil without
	log      *zap.Logger

	findThreshold func() float64 // see Options
}

// Options configure a Selector. The zero value is ready.
type Options struct {
	Executor *execute.Executor // knows which server is meant if several have the same tool; may be nil
	Vectors  *encoder.Store    // keeps the vectors of tools; nil keeps them in memory
	Observer Observer          // is notified of searches; may be nil
	Log      *zap.Logger       // nil is silence

	// EncodeTime is how long a search may encode tools that have no vector yet; 0 means 300 ms. After that it goes by words alone.
	EncodeTime time.Duration

	// FindThreshold returns the least confidence at which an answer is sure; 0 means
	// [DefaultFindThreshold], and so does a nil function. It is called at each search.
	FindThreshold func() float64
}

// New returns a selector of the tools in r. It starts nothing until the first search or
// [Selector.Run]; from then on [Selector.Close] must be called, which Run does when it
// returns.
func New(r *registry.Registry, o Options) *Selector {
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	return &Selector{
		registry: r, index: index.New(r), executor: o.Executor, meanings: newMeanings(o.Vectors, cmp.Or(o.EncodeTime, encodeTime)),
		observer: o.Observer, log: o.Log.Named("selector"), findThreshold: o.FindThreshold,
	}
}

// Run updates the index and, after the first search, the vectors after each change of the registry until ctx
// ends, and then closes the index. Searches are right without it, but slow after a change.
func (s *Selector) Run(ctx context.Context) error {
	encoding := make(chan struct{})
	go func() {
		defer close(encoding)
		s.encodeAll(ctx)
	}()
	defer func() { <-encoding }()
	return s.index.Run(ctx, s.log)
}

// encodeAll runs [Selector.Encode] after each change until ctx ends.
func (s *Selector) encodeAll(ctx context.Context) {
	select {
	case <-s.meanings.begun.Done(): // a router that finds nothing needs no vectors
	case <-ctx.Done():
	}
	for ctx.Err() == nil {
		changed := s.registry.Changed()
		if err := s.Encode(ctx); err != nil && ctx.Err() == nil {
			s.log.Warn("the vectors of tools are not kept; they are made again after the next start", zap.Error(err))
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
		signal.Within(ctx.Done(), gatherTime)
	}
}

// Close frees the index. Later searches fail.
func (s *Selector) Close() error { return s.index.Close() }

// An Observer is notified of executions and searches: to count them, to log them, to show
// them. It is called on the goroutine of the call, by many at once, and must not block.
type Observer interface {
	// Executed gets each execution when it has ended.
	Executed(e Execution)

	// Searched gets each search that has ended.
	Searched(s Search)
}

// A Search is a search for tools, or for prompts and resources, that has ended.
type Search struct {
	Query     Query
	Took      time.Duration
	Found     int // candidates
	Abstained bool
	Err       error
}
