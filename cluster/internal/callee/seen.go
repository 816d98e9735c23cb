package callee

import (
	"crypto/sha256"
	"sync"
	"time"

	"github.com/mcp-metarouter/metarouter/cluster/internal/frame"
)

const (
	// maxSkew is how far the time of a frame may differ from this node's clock.
	maxSkew = time.Minute

	// maxSeen bounds the IDs that are remembered, maxSeenOf the IDs of a node. Each takes about 40
	// bytes.
	maxSeen   = 1_000_000
	maxSeenOf = 600_000

	// seenStep is the width of the steps in which IDs are forgotten.
	seenStep = 10 * time.Second
)

// seen remembers the IDs of calls for as long as a copy of their frame would count as new: until
// the clock is maxSkew after the time in the frame. A clock that is set back does not make a frame
// new again. The zero value has seen nothing.
type seen struct {
	mu    sync.Mutex            // guards the fields below
	steps map[int64]*seenInStep // by when they end, in units of seenStep
	ended int64                 // frames of this step and earlier ones are too old
	ofKey map[string]int        // how many IDs of each node are remembered
	total int
}

type seenInStep struct {
	ids   map[seenID]bool // whether it is known that the call never ran
	ofKey map[string]int
}

type seenID [16]byte

// idOf returns the hash by which a call is remembered: its ID may be long.
func idOf(from frame.Address, call string) (id seenID) {
	sum := sha256.Sum256([]byte(from.Key + "\x00" + from.Instance + "\x00" + call))
	copy(id[:], sum[:])
	return id
}

// stepOf returns the step in which a frame of the time stops to count as new.
func stepOf(sent int64) int64 {
	return (sent + maxSkew.Milliseconds()) / seenStep.Milliseconds()
}

// A novelty says whether an ID is new.
type novelty int

const (
	isNew   novelty = iota
	isKnown         // it was seen before, or it is too old to know
	isFull          // too many IDs are remembered: it is not known whether it is new
)

// add notes the ID of a frame that was sent at the time, in Unix milliseconds.
func (s *seen) add(from frame.Address, call string, sent int64, now time.Time) novelty {
	id, step := idOf(from, call), stepOf(sent)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget(now)
	if step <= s.ended {
		return isKnown
	}
	if in := s.find(id); in != nil {
		return isKnown
	}
	if s.total >= maxSeen || s.ofKey[from.Key] >= maxSeenOf {
		return isFull
	}
	if s.steps == nil {
		s.steps, s.ofKey = make(map[int64]*seenInStep), make(map[string]int)
	}
	in := s.steps[step]
	if in == nil {
		in = &seenInStep{make(map[seenID]bool), make(map[string]int)}
		s.steps[step] = in
	}
	in.ids[id] = false
	in.ofKey[from.Key]++
	s.ofKey[from.Key]++
	s.total++
	return isNew
}

// neverRan marks the call of an added ID as one that will never run.
func (s *seen) neverRan(from frame.Address, call string) {
	id := idOf(from, call)
	s.mu.Lock()
	defer s.mu.Unlock()
	if in := s.find(id); in != nil {
		in.ids[id] = true
	}
}

// get reports whether the ID is remembered, and whether its call is known to never have run.
func (s *seen) get(from frame.Address, call string) (known, neverRan bool) {
	id := idOf(from, call)
	s.mu.Lock()
	defer s.mu.Unlock()
	if in := s.find(id); in != nil {
		return true, in.ids[id]
	}
	return false, false
}

// find returns the step that has the ID; nil for an unknown ID. s.mu must be held.
func (s *seen) find(id seenID) *seenInStep {
	for _, in := range s.steps {
		if _, ok := in.ids[id]; ok {
			return in
		}
	}
	return nil
}

// forget forgets the IDs of the steps that have ended. s.mu must be held.
func (s *seen) forget(now time.Time) {
	current := now.UnixMilli() / seenStep.Milliseconds()
	for step, in := range s.steps {
		if step >= current {
			continue
		}
		delete(s.steps, step)
		s.ended = max(s.ended, step)
		s.total -= len(in.ids)
		for key, n := range in.ofKey {
			if s.ofKey[key] -= n; s.ofKey[key] == 0 {
				delete(s.ofKey, key)
			}
		}
	}
}
