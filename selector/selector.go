// Package selector picks the tool that suits a task, and runs it. [Route] does both.
//
// [Selector.Find] finds candidates by words, by meaning and by use, and ranks them with a
// confidence. If that is too low, the answer says that it is not sure, or that no tool
// suits the task.
//
// [Selector.Execute] checks the arguments against the tool's schema, acquires the server's
// session and calls. The result is the server's own bytes; only its _meta gains members.
//
// The parts are packages of their own: text reads the task, rank scores the candidates,
// execute runs calls, usage learns, and evaluation measures.
package selector

import (
	"cmp"
	"context"
	"time"

	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/internal/index"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector/internal/execute"
)

// A Selector picks tools from a registry and runs them. Its methods may be called by many
// goroutines at once. It has many, since it is all that other packages see of two internal
// parts: the index and the executor.
type Selector struct {
	index      *index.Indexes
	executor   *execute.Executor
	experience Experience // nil without
	classifier Classifier // nil without
	meanings   Meanings   // nil without
	observer   Observer   // nil without
	log        *zap.Logger

	findThreshold func() float64 // see Options
}

// Options are what a Selector needs but its registry. The zero value finds tools, and can
// run none.
type Options struct {
	Sessions   Sessions      // where tools run
	Node       func() string // names this router in results; nil or "" is the machine's host name
	Experience Experience    // what was learned from use; nil for nothing
	Classifier Classifier    // knows categories of tasks; nil for none
	Meanings   Meanings      // knows vectors of sentences; nil to find by words alone
	Observer   Observer      // is notified of calls and searches; nil for none
	Tracer     trace.Tracer  // makes a span of each call and of each attempt; nil for none
	Log        *zap.Logger   // nil is silence

	// FindThreshold returns the least confidence at which an answer is sure; 0 means 0.6, and
	// so does a nil function. It is called at each search.
	FindThreshold func() float64
}

// New returns a selector of the tools in r. It starts nothing until the first search or
// [Selector.Run]; from then on [Selector.Close] must be called, which Run does when it
// returns.
func New(r *registry.Registry, o Options) *Selector {
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	s := &Selector{
		index: index.New(r), experience: o.Experience, classifier: o.Classifier, meanings: o.Meanings, observer: o.Observer,
		log: o.Log.Named("selector"), findThreshold: o.FindThreshold,
	}
	s.executor = execute.New(execute.Options{
		Registry: r, Sessions: o.Sessions, Node: nodeOf(o.Node),
		Observer: o.Observer, Tracer: o.Tracer, Log: s.log,
	})
	return s
}

// nodeOf returns the function that names this router in results.
func nodeOf(named func() string) func() string {
	host := Node()
	return func() string {
		if named != nil {
			return cmp.Or(named(), host)
		}
		return host
	}
}

// Run updates the index after each change of the registry until ctx ends, and then closes
// it. Searches are right without it, but slow after a change.
func (s *Selector) Run(ctx context.Context) error { return s.index.Run(ctx, s.log) }

// Close frees the index. Later searches fail.
func (s *Selector) Close() error { return s.index.Close() }

// Experience is what was learned from use.
type Experience interface {
	// Match returns evidence by tool ID, from −0.3 to 1: whether the tool did well after
	// tasks with these words.
	Match(words []string, now time.Time) map[string]float64
}

// A Classifier knows the categories of tasks. Each has a capability tag.
type Classifier interface {
	// Category returns the tag of the task's category and its probability, in [0,1]; 0 if
	// the task is of no category. It answers in time even if something is wrong with it.
	Category(ctx context.Context, task string) (tag string, probability float64)
}

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

// Observers are several observers as one.
type Observers []Observer

// Executed implements [Observer].
func (all Observers) Executed(e Execution) {
	for _, o := range all {
		o.Executed(e)
	}
}

// Searched implements [Observer].
func (all Observers) Searched(s Search) {
	for _, o := range all {
		o.Searched(s)
	}
}
