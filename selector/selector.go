// Package selector picks the tool that suits a task. [Route] also runs it.
//
// [Selector.Find] finds candidates by words and by meaning, and ranks them with a
// confidence. If the confidence is too low, the answer says that it is not sure, or that no
// tool suits the task.
//
// Package text reads the task, rank scores the candidates, and internal/execute runs calls.
package selector

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/internal/execute"
	"github.com/mcp-metarouter/metarouter/internal/index"
	"github.com/mcp-metarouter/metarouter/registry"
)

// A Selector picks tools from a registry. Its methods may be called by many goroutines at
// once.
type Selector struct {
	index    *index.Indexes
	executor *execute.Executor // nil without
	meanings Meanings          // nil without
	observer Observer          // nil without
	log      *zap.Logger

	findThreshold func() float64 // see Options
}

// Options configure a Selector. The zero value finds tools by words.
type Options struct {
	Executor *execute.Executor // knows which server is meant if several have the same tool; may be nil
	Meanings Meanings          // knows vectors of sentences; nil to find by words alone
	Observer Observer          // is notified of searches; may be nil
	Log      *zap.Logger       // nil is silence

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
		index: index.New(r), executor: o.Executor, meanings: o.Meanings,
		observer: o.Observer, log: o.Log.Named("selector"), findThreshold: o.FindThreshold,
	}
}

// Run updates the index after each change of the registry until ctx ends, and then closes
// it. Searches are right without it, but slow after a change.
func (s *Selector) Run(ctx context.Context) error { return s.index.Run(ctx, s.log) }

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
