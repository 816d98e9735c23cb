// Package count counts calls between nodes and frames that were dropped, for metrics.
//
// The methods of a nil *[Counts] do nothing.
package count

import (
	"context"
	"errors"
	"maps"
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

// Outcomes are all outcomes.
var Outcomes = []Outcome{OK, Error, NotSent, Unknown, Cancelled}

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

// A Reason says why a frame was dropped.
type Reason string

const (
	Garbage   Reason = "garbage"   // it can't be decoded, or is too long
	Version   Reason = "version"   // of another major version
	Untrusted Reason = "untrusted" // its sender is not trusted
	Signature Reason = "signature" // it is not signed by its sender
	Recipient Reason = "recipient" // it is for another router
	Clock     Reason = "clock"     // its time differs from ours by more than a minute
	Repeated  Reason = "repeated"  // it was received before
	Overflow  Reason = "overflow"  // too many frames wait
	Unwanted  Reason = "unwanted"  // it belongs to no call that is known here
)

// Reasons are all reasons.
var Reasons = []Reason{Garbage, Version, Untrusted, Signature, Recipient, Clock, Repeated, Overflow, Unwanted}

// maxNodes bounds the nodes that calls are counted for; calls of further ones count for [Others].
const maxNodes = 200

// Others is the name under which calls of nodes beyond the bound are counted. No node has it.
const Others = "(others)"

// Calls are how many calls ended, by outcome.
type Calls map[Outcome]uint64

// Counts counts since the router was started. The zero value is ready for use, by several
// goroutines at once.
type Counts struct {
	mu       sync.Mutex // guards the fields below
	to, from map[string]Calls
	dropped  map[Reason]uint64
}

// To counts a call of a client of this router that a node ran, or should have run. node is its name.
func (c *Counts) To(node string, o Outcome) {
	if c != nil {
		c.add(&c.to, node, o)
	}
}

// From counts a call that this router was asked to run by a node.
func (c *Counts) From(node string, o Outcome) {
	if c != nil {
		c.add(&c.from, node, o)
	}
}

func (c *Counts) add(to *map[string]Calls, node string, o Outcome) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if *to == nil {
		*to = make(map[string]Calls)
	}
	calls := (*to)[node]
	if calls == nil && len(*to) >= maxNodes {
		node = Others
		calls = (*to)[node]
	}
	if calls == nil {
		calls = make(Calls)
		(*to)[node] = calls
	}
	calls[o]++
}

// Dropped counts a frame that was dropped.
func (c *Counts) Dropped(why Reason) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dropped == nil {
		c.dropped = make(map[Reason]uint64)
	}
	c.dropped[why]++
}

// Now returns the counts by name of the node, and the dropped frames by reason.
func (c *Counts) Now() (to, from map[string]Calls, dropped map[Reason]uint64) {
	if c == nil {
		return nil, nil, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return copied(c.to), copied(c.from), maps.Clone(c.dropped)
}

func copied(all map[string]Calls) map[string]Calls {
	next := make(map[string]Calls, len(all))
	for node, calls := range all {
		next[node] = maps.Clone(calls)
	}
	return next
}
