// Package selector picks the tool that suits a task, and runs it.
//
// Picking has two stages. The registry's index finds candidates by words; [Rank]
// orders them, and says with what confidence each suits the task. When none
// does, the selector abstains rather than offer the least bad one.
//
// Running checks the arguments against the tool's schema, finds the server's
// session and calls. A result is passed on as the server's bytes, with what we
// know of the execution added to its _meta.
package selector

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/registry"
)

// A Selector picks tools from a registry and runs them. Its methods may be
// called by many goroutines at once.
type Selector struct {
	registry *registry.Registry
	sessions Sessions
	node     string
	log      *zap.Logger
	schemas  schemas
	gates    gates
	cache    cache

	experience Experience   // nil if there is none
	classifier Classifier   // nil if there is none
	observer   Observer     // nil if there is none
	tracer     trace.Tracer // nil if there is none
}

// Experience is what was learned from use.
type Experience interface {
	// Match returns evidence by tool ID, from −0.3 to 1: whether the tool did well
	// after tasks of such words.
	Match(words []string, now time.Time) map[string]float64
}

// Trust lets the selector take experience into account. It must be called before
// anything is looked for.
func (s *Selector) Trust(e Experience) { s.experience = e }

// A Classifier knows categories of tasks, of which tools bear the tags.
type Classifier interface {
	// Category returns the tag of the task's category and how likely it is of that, in
	// [0,1]; 0 if it is of none. It answers in time, whatever is wrong.
	Category(ctx context.Context, task string) (tag string, likely float64)
}

// Consult lets the selector take into account of what category a task is. It must be
// called before anything is looked for.
func (s *Selector) Consult(c Classifier) { s.classifier = c }

// New returns a selector of the tools in r, which run in sessions. node names
// this router in results.
func New(r *registry.Registry, sessions Sessions, node string, log *zap.Logger) *Selector {
	log = log.Named("selector")
	return &Selector{registry: r, sessions: sessions, node: node, log: log, schemas: schemas{log: log}}
}
