package identity

import (
	"hash/maphash"
	"sync"
	"time"
)

const (
	// maxRecent bounds the tokens that are remembered, and recently for how long at least.
	maxRecent = 10_000
	recently  = 10 * time.Minute
)

// recentTokens are the hashes of access tokens that were good a while ago. Their clients learn at
// once when one has expired, also if many bad tokens come from the same address, which may be a
// proxy's. The hashes are quick and have a secret seed; a wrong match answers 401 instead of 429.
type recentTokens struct {
	seed maphash.Seed

	mu       sync.Mutex // guards the fields below
	now, old map[uint64]bool
	since    time.Time // of now
}

func newRecentTokens() recentTokens { return recentTokens{seed: maphash.MakeSeed()} }

// add notes that a token is good.
func (t *recentTokens) add(token string) {
	sum := maphash.String(t.seed, token)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.now == nil || len(t.now) >= maxRecent/2 || time.Since(t.since) >= recently {
		t.now, t.old, t.since = make(map[uint64]bool), t.now, time.Now()
	}
	t.now[sum] = true
}

// has reports whether a token was good recently.
func (t *recentTokens) has(token string) bool {
	sum := maphash.String(t.seed, token)
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.now[sum] || t.old[sum]
}
