package httpd

import (
	"crypto/sha256"
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
// proxy's. The zero value is empty.
type recentTokens struct {
	mu       sync.Mutex // guards what follows
	now, old map[[sha256.Size]byte]bool
	since    time.Time // of now
}

// add notes that a token is good.
func (t *recentTokens) add(sum [sha256.Size]byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.now == nil || len(t.now) >= maxRecent/2 || time.Since(t.since) >= recently {
		t.now, t.old, t.since = make(map[[sha256.Size]byte]bool), t.now, time.Now()
	}
	t.now[sum] = true
}

// has reports whether a token was good recently.
func (t *recentTokens) has(sum [sha256.Size]byte) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.now[sum] || t.old[sum]
}
