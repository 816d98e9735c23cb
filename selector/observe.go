package selector

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/session"
)

// An Observer is told what was executed and searched for: to count it, to log it, to
// show it. It is called on the goroutine of the call, by many at once, and must not
// block.
type Observer interface {
	// Executed is told of each execution when it has ended.
	Executed(e Execution)

	// Searched is told of each search for tools, or for what else there is.
	Searched(s Search)
}

// Observers are several as one.
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

// An Execution is what became of one call of a tool. Arguments and Result may be kept
// no longer than Executed takes.
type Execution struct {
	Tool     *registry.NormalizedTool // that was asked for; without a Name where its server has not listed it, without a Server too where nobody has
	Answered *registry.NormalizedTool // that answered, nil if none did
	Client   string                   // who asked, by the name that it gives itself; "" if unknown
	Trace    string                   // trace_id in the result's _meta: 32 hex digits; "" where there was neither a result nor a trace
	Began    time.Time
	Took     time.Duration
	Attempts int // to reach a server; 0 if none was made
	Outcome  Outcome
	Fault    string // what went wrong, in our own words or the JSON-RPC error's; "" for OK and ToolFailed

	Arguments json.RawMessage // as they came
	Result    json.RawMessage // nil if there is none
	Cached    bool            // the result was there already
}

// An Outcome says how an execution ended. There are no others, so that they can be
// counted.
type Outcome string

const (
	OK         Outcome = "ok"
	ToolFailed Outcome = "tool_error"        // the server's result says so: isError
	Refused    Outcome = "server_error"      // the server answered with a JSON-RPC error
	Misfit     Outcome = "invalid_arguments" // they do not fit the schema, and nothing was called
	Unanswered Outcome = "no_answer"         // nobody could be called, or nobody answered
	Cancelled  Outcome = "cancelled"         // whoever asked does not want it any more
)

// Outcomes are all there are.
var Outcomes = []Outcome{OK, ToolFailed, Refused, Misfit, Unanswered, Cancelled}

// OutcomeOf returns how an execution ended that came to this, and what went wrong.
func OutcomeOf(r Result, err error) (o Outcome, fault string) {
	refused, ok := errors.AsType[*session.Error](err)
	switch {
	case ok:
		return Refused, refused.Message
	case err != nil:
		return Cancelled, err.Error()
	case len(r.Mismatch) > 0:
		return Misfit, r.Mismatch[0]
	case r.Err != nil:
		return Unanswered, r.Err.Error()
	case r.IsError && r.Tool == nil:
		return Unanswered, r.Text()
	case r.IsError:
		return ToolFailed, ""
	}
	return OK, ""
}

// A Search is one that was made.
type Search struct {
	Query     Query
	Took      time.Duration
	Found     int // candidates
	Abstained bool
	Err       error
}

// Observe has o told of all that the selector does. It must be called before anything
// is done.
func (s *Selector) Observe(o Observer) { s.observer = o }

// Execute runs a tool: it checks the arguments against the tool's schema, waits
// for the server's session if need be, and calls.
//
// A failure of the tool or of the way to it is a Result with IsError that says
// what happened and what to do. The error is a [*session.Error] where the server
// answered with one, or the cause of ctx's end.
//
// Where its server can't take the call, another one may that the policy lets stand
// in for it, if it has a tool of the same name that the arguments fit.
//
// A call that may have taken effect is sent again only where the policy allows.
func (s *Selector) Execute(ctx context.Context, c Call) (Result, error) {
	run := s.newRun(c)
	ctx, span := StartSpan(ctx, s.tracer, toolsCall, c.Tool.ID, c.Meta)
	if id := span.SpanContext().TraceID(); id.IsValid() {
		run.trace = id.String()
	}
	r, err := s.execute(ctx, run, c)
	run.tell(span, c, r, err)
	if s.observer != nil {
		e := Execution{
			Tool: c.Tool, Answered: r.Tool, Client: c.Client, Trace: run.trace, Began: run.began, Took: time.Since(run.began),
			Attempts: run.attempts, Arguments: c.Arguments, Result: r.JSON, Cached: run.cached,
		}
		e.Outcome, e.Fault = OutcomeOf(r, err)
		s.observer.Executed(e)
	}
	return r, err
}

// Find ranks what suits the task: tools, or what Kinds says.
//
// Where tools bear all the capabilities asked for, these are the candidates;
// where none does, those that bear most of them, and Partial says what is
// lacking; where none bears any, the task alone decides. Capabilities without a
// task have their bearers by ID. A query that asks for nothing abstains.
func (s *Selector) Find(ctx context.Context, q Query) (Ranking, error) {
	began := time.Now()
	found, err := s.find(ctx, q)
	if s.observer != nil {
		s.observer.Searched(Search{Query: q, Took: time.Since(began), Found: len(found.Candidates), Abstained: found.Abstained, Err: err})
	}
	return found, err
}

// A Load is how busy a server is.
type Load struct {
	Calls   int // under way
	Waiting int // for their turn
}

// Load returns how busy the server is with calls.
func (s *Selector) Load(server string) Load {
	found, ok := s.gates.all.Load(server)
	if !ok {
		return Load{}
	}
	g := found.(*gate)
	g.mu.Lock()
	defer g.mu.Unlock()
	return Load{Calls: g.under, Waiting: len(g.waiting)}
}
