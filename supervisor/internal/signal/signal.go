// Package signal waits for channels that are used as signals: channels that are
// closed once something has happened, and channels of one place that hold a
// notice until it is read; and for a slot where few may hold one.
package signal

import (
	"context"
	"sync"
	"time"
)

// Within reports whether c is closed before d has passed.
func Within(c <-chan struct{}, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-c:
		return true
	case <-t.C:
		return false
	}
}

// IsClosed reports whether c is closed.
func IsClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// Leave puts a notice into c unless it holds one.
func Leave(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Discard takes the notice out of c if it holds one.
func Discard(c chan struct{}) {
	select {
	case <-c:
	default:
	}
}

// Slots limits how many holders there are at a time: one for each place of the
// channel.
type Slots chan struct{}

// Take waits for a slot, and returns the cause of ctx if that ends first. The slot
// is given back by release, or when limit has passed.
func (s Slots) Take(ctx context.Context, limit time.Duration) (release func(), err error) {
	select {
	case s <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	free := sync.OnceFunc(func() { <-s })
	timer := time.AfterFunc(limit, free)
	return func() { timer.Stop(); free() }, nil
}
