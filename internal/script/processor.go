package script

import (
	"context"
	"time"
)

const (
	slice  = 50 * time.Millisecond // how long a script computes before it is another one's turn
	parked = 16 << 20              // bytes that the stack of a script may have that waits for its next turn
)

// A processor bounds a script's CPU time. Scripts take turns, so that one processor is left for the router.
type processor struct {
	turns  chan struct{} // has a value for each script that computes
	memory *budget
	left   time.Duration
	limit  *time.Timer // ends the script
	since  time.Time   // of its turn; zero without one
}

func newProcessor(e *Engine, limit time.Duration, end func()) *processor {
	p := &processor{turns: e.turns, memory: &e.mapped, left: limit, limit: time.AfterFunc(time.Hour, end)}
	p.limit.Stop()
	return p
}

// acquire waits for a turn, which ends the script after some time.
func (p *processor) acquire(ctx context.Context, c *clock) error {
	select {
	case p.turns <- struct{}{}:
		p.since = time.Now()
		wall, _ := c.left()
		p.limit.Reset(min(p.left, wall))
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (p *processor) release() {
	if !p.since.IsZero() {
		p.limit.Stop()
		p.left -= time.Since(p.since)
		p.since = time.Time{}
		<-p.turns
	}
}

// yield lets another script compute after a slice. It returns an error if the script has ended, or if there is no memory
// to keep its stack meanwhile.
func (p *processor) yield(ctx context.Context, c *clock) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if time.Since(p.since) < slice {
		return nil
	}
	p.release()
	if !p.memory.take(parked) {
		return errorf("LimitError", "too many scripts compute at the same time, or no memory is left for scripts; try again later")
	}
	defer p.memory.used.Add(-parked)
	return p.acquire(ctx, c)
}
