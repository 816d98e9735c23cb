package clusternode

import (
	"context"
	"errors"
	"sync"

	"github.com/mcp-metarouter/metarouter/internal/session"
)

// An Outcome says how a call of another node ended, as the gateway knows it.
type Outcome string

const (
	OK        Outcome = "ok"        // it has a result
	Error     Outcome = "error"     // the server answered with an error
	NotSent   Outcome = "not_sent"  // it was not run: refused, or the node could not be reached
	Unknown   Outcome = "unknown"   // it may have run; its result is lost
	Cancelled Outcome = "cancelled" // its client waits no longer
)

// OutcomeOf returns the outcome of a call that ended with the error of a [session.Session].
func OutcomeOf(err error) Outcome {
	switch {
	case err == nil:
		return OK
	case errors.Is(err, session.ErrNotSent):
		return NotSent
	case errors.Is(err, session.ErrClosed):
		return Unknown
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return Cancelled
	}
	return Error
}

// maxNodes bounds the nodes that calls are counted for; calls of further ones count for [Others].
const maxNodes = 200

// Others is the name under which calls of nodes beyond the bound are counted. No node has it.
const Others = "(others)"

// Counts counts since the router was started. The zero value is ready for use, by several
// goroutines at once.
type Counts struct {
	mu       sync.Mutex                    // guards the fields below
	to, from map[string]map[Outcome]uint64 // by name of the node
}

// To counts a call of a client of this router that a node ran, or should have run. node is its name.
func (c *Counts) To(node string, o Outcome) {
	c.add(&c.to, node, o)
}

// From counts a call that this router was asked to run by a node.
func (c *Counts) From(node string, o Outcome) {
	c.add(&c.from, node, o)
}

func (c *Counts) add(to *map[string]map[Outcome]uint64, node string, o Outcome) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if *to == nil {
		*to = make(map[string]map[Outcome]uint64)
	}
	calls := (*to)[node]
	if calls == nil && len(*to) >= maxNodes {
		node = Others
		calls = (*to)[node]
	}
	if calls == nil {
		calls = make(map[Outcome]uint64)
		(*to)[node] = calls
	}
	calls[o]++
}

// Now returns the counters.
func (c *Counts) Now() Counters {
	c.mu.Lock()
	defer c.mu.Unlock()
	return Counters{To: byOutcome(c.to), From: byOutcome(c.from)}
}

// byOutcome returns a copy in which each node has each outcome.
func byOutcome(nodes map[string]map[Outcome]uint64) map[string]map[string]uint64 {
	all := make(map[string]map[string]uint64, len(nodes))
	for node, calls := range nodes {
		all[node] = make(map[string]uint64)
		for _, o := range []Outcome{OK, Error, NotSent, Unknown, Cancelled} {
			all[node][string(o)] = calls[o]
		}
	}
	return all
}
