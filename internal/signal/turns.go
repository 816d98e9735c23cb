package signal

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Turns limit how many do something at a time; the others wait in a line. Those that
// someone waits for come first in it, and may take an extra turn.
type Turns struct {
	regular, extra int

	mu   sync.Mutex // guards the fields below
	held int
	line []*waiting
}

// A waiting is a place in the line of Turns.
type waiting struct {
	rank int           // the higher comes first
	turn chan struct{} // closed when it has its turn
}

// The ranks of a place in the line.
const (
	rankOthers = iota
	rankSoon
	rankWanted
)

// NewTurns returns Turns of which regular are held at a time, and up to extra more by
// those that someone waits for.
func NewTurns(regular, extra int) *Turns { return &Turns{regular: regular, extra: extra} }

// A Turn says where in the line its caller waits, and for how long it is held.
type Turn struct {
	Limit  time.Duration   // the turn is given back when it has passed
	Soon   bool            // come before the others, but after those that someone waits for
	Wanted <-chan struct{} // closed when someone waits for this; may be nil
	Waits  func()          // called if the turn is not there at once; may be nil
}

// Take waits for a turn, and returns the cause of ctx if that ends first. The turn is
// given back by release, or when its limit has passed.
func (t *Turns) Take(ctx context.Context, at Turn) (release func(), err error) {
	w := &waiting{turn: make(chan struct{})}
	switch {
	case IsClosed(at.Wanted):
		w.rank = rankWanted
	case at.Soon:
		w.rank = rankSoon
	}
	t.mu.Lock()
	t.line = append(t.line, w)
	t.serve()
	t.mu.Unlock()
	if at.Waits != nil && !IsClosed(w.turn) {
		at.Waits()
	}
	for {
		select {
		case <-w.turn:
			free := sync.OnceFunc(t.giveBack)
			timer := time.AfterFunc(at.Limit, free)
			return func() { timer.Stop(); free() }, nil
		case <-at.Wanted:
			at.Wanted = nil
			t.mu.Lock()
			w.rank = rankWanted
			t.serve()
			t.mu.Unlock()
		case <-ctx.Done():
			t.leave(w)
			return nil, context.Cause(ctx)
		}
	}
}

// serve gives turns to the first in the line. t.mu must be held.
func (t *Turns) serve() {
	for len(t.line) > 0 {
		first := slices.MaxFunc(t.line, func(a, b *waiting) int { return a.rank - b.rank }) // the earliest of equal ones
		if t.held >= t.regular && (first.rank < rankWanted || t.held >= t.regular+t.extra) {
			return
		}
		t.held++
		t.remove(first)
		close(first.turn)
	}
}

func (t *Turns) remove(w *waiting) {
	i := slices.Index(t.line, w)
	t.line = slices.Delete(t.line, i, i+1)
}

func (t *Turns) giveBack() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.held--
	t.serve()
}

// leave takes w out of the line, or gives back the turn that it got meanwhile.
func (t *Turns) leave(w *waiting) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if IsClosed(w.turn) {
		t.held--
		t.serve()
		return
	}
	t.remove(w)
}
