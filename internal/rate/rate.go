// Package rate limits how often clients may do something. It is a leaf.
package rate

import (
	"cmp"
	linked "container/list"
	"fmt"
	"math"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// maxBuckets bounds the clients with requests that are counted, some 300 bytes each. A client's count is dropped
// early only if so many other clients came since.
const maxBuckets = 100_000

const longestWait = 24 * time.Hour // after which a client may try again

// A Limit says how many requests a client may make.
type Limit struct {
	PerSecond float64 // for long; 0 is any number
	Burst     int     // at once; 0 is a second's
}

// whole returns the limit with its Burst.
func (l Limit) whole() Limit {
	l.Burst = cmp.Or(l.Burst, int(math.Ceil(min(l.PerSecond, math.MaxInt32))))
	return l
}

// String returns the rate in the unit in which it is at least one, such as "30 a minute".
func (l Limit) String() string {
	number, unit := l.PerSecond, "a second"
	if number < 1 {
		number, unit = number*60, "a minute"
	}
	if number < 1 {
		number, unit = number*60, "an hour"
	}
	return fmt.Sprintf("%v %s", math.Round(number*100)/100, unit)
}

// A Limiter refuses requests of clients that make too many, by a token bucket for each
// client. Nil refuses nothing. Its methods may be called by many goroutines at once.
type Limiter struct {
	Limit              // for Take
	mu      sync.Mutex // guards the fields below
	buckets map[string]*linked.Element
	order   linked.List // of *bucket, the one used last at the end
}

type bucket struct {
	client string
	*rate.Limiter
}

// New returns a limiter for a [Limit]; nil if that limits nothing.
func New(perSecond float64, burst int) *Limiter {
	if perSecond <= 0 {
		return nil
	}
	return &Limiter{Limit: Limit{perSecond, burst}.whole()}
}

// PerMinute returns a limiter for so many requests a minute.
func PerMinute(most int) *Limiter { return New(float64(most)/60, most) }

// Take lets n requests of the client pass and returns 0, or returns how long the client
// must wait until so many as again may pass.
func (l *Limiter) Take(client string, n, again int) (wait time.Duration) {
	if l == nil {
		return 0
	}
	return l.TakeOf(l.Limit, client, n, again)
}

// TakeOf is Take by a limit that the client has always.
func (l *Limiter) TakeOf(limit Limit, client string, n, again int) (wait time.Duration) {
	if n == 0 {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	limit = limit.whole()
	b, now := l.bucket(limit, client), time.Now()
	if b.AllowN(now, n) {
		return 0
	}
	missing := float64(min(again, limit.Burst)) - b.TokensAt(now)
	return max(1, time.Duration(min(math.Ceil(missing/limit.PerSecond*1e9), float64(longestWait))))
}

// bucket returns the client's bucket. l.mu must be held.
func (l *Limiter) bucket(limit Limit, client string) *bucket {
	if e, ok := l.buckets[client]; ok {
		l.order.MoveToBack(e)
		return e.Value.(*bucket)
	}
	for e, now := l.order.Front(), time.Now(); e != nil; e = l.order.Front() {
		oldest := e.Value.(*bucket)
		if len(l.buckets) < maxBuckets && oldest.TokensAt(now) < float64(oldest.Burst()) {
			break
		} // a full bucket is like a new one
		delete(l.buckets, oldest.client)
		l.order.Remove(e)
	}
	if l.buckets == nil {
		l.buckets = make(map[string]*linked.Element)
	}
	b := &bucket{client, rate.NewLimiter(rate.Limit(limit.PerSecond), limit.Burst)}
	l.buckets[client] = l.order.PushBack(b)
	return b
}
