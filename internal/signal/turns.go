package signal

import (
	"context"
	"sync"
	"time"
)

// Turns limit how many do something at a time; the others wait, in the order in which they came. Those that
// someone waits for may take an extra turn.
type Turns struct{ regular, extra chan struct{} } // an item for each turn that is held

// NewTurns returns Turns of which regular are held at a time, and up to extra more by
// those that someone waits for.
func NewTurns(regular, extra int) *Turns {
	return &Turns{make(chan struct{}, regular), make(chan struct{}, extra)}
}

// A Turn says how its caller waits, and for how long it is held.
type Turn struct {
	Limit  time.Duration   // the turn is given back when it has passed
	Wanted <-chan struct{} // closed when someone waits for this; may be nil
	Waits  func()          // called if the turn is not there at once; may be nil
}

// Take waits for a turn, and returns the cause of ctx if that ends first. The turn is
// given back by release, or when its limit has passed.
func (t *Turns) Take(ctx context.Context, at Turn) (release func(), err error) {
	var extra chan struct{}
	if IsClosed(at.Wanted) {
		at.Wanted, extra = nil, t.extra
	}
	select {
	case t.regular <- struct{}{}:
		return hold(t.regular, at.Limit), nil
	case extra <- struct{}{}:
		return hold(extra, at.Limit), nil
	default:
	}
	if at.Waits != nil {
		at.Waits()
	}
	for {
		select {
		case t.regular <- struct{}{}:
			return hold(t.regular, at.Limit), nil
		case extra <- struct{}{}:
			return hold(extra, at.Limit), nil
		case <-at.Wanted:
			at.Wanted, extra = nil, t.extra
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// hold gives an item of turns back when release is called, or the limit has passed.
func hold(turns chan struct{}, limit time.Duration) (release func()) {
	free := sync.OnceFunc(func() { <-turns })
	timer := time.AfterFunc(limit, free)
	return func() { timer.Stop(); free() }
}
