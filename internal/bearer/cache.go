package bearer

import (
	"context"
	"crypto/sha256"
	"maps"
	"sync"
	"time"
)

// maxKept bounds the verdicts that are kept. Each takes at most some 80 KiB: a token, and what its issuer says of it.
const maxKept = 2000

// A verdict is what is kept of a token.
type verdict struct {
	token   *verified // nil if it was never valid
	refused error     // nil if it is valid
	issuer  *issuer   // that has issued it, or was asked first
	fresh   time.Time // until when it counts
	until   time.Time // until when it is kept
}

// counts reports whether the verdict still counts: a valid token has not expired, by the clock on
// the wall, and its key is in force. The error says why the token is refused, or why the keys are not known.
func (v *verdict) counts(ctx context.Context) (bool, error) {
	switch {
	case v.refused != nil:
		return true, v.refused
	case hasExpired(v.token.Expires):
		return false, nil
	case v.token.key == nil:
		return true, nil
	}
	keys, err := v.issuer.keys.current(ctx)
	return err == nil && keys.has(*v.token.key), err
}

// A cache keeps verdicts by the hash of the token, each for its time. When it is full of those, it drops all.
type cache struct {
	mu    sync.Mutex // guards byKey
	byKey map[[sha256.Size]byte]verdict
}

func (c *cache) get(key [sha256.Size]byte) (verdict, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	v, ok := c.byKey[key]
	return v, ok && time.Now().Before(v.until)
}

func (c *cache) put(key [sha256.Size]byte, v verdict, last time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if len(c.byKey) >= maxKept {
		maps.DeleteFunc(c.byKey, func(_ [sha256.Size]byte, old verdict) bool {
			return !now.Before(old.until) || old.token != nil && hasExpired(old.token.Expires)
		})
		if len(c.byKey) > maxKept*9/10 { // rare, since this looked at all
			clear(c.byKey)
		}
	}
	if c.byKey == nil {
		c.byKey = make(map[[sha256.Size]byte]verdict)
	}
	v.until = now.Add(last)
	c.byKey[key] = v
}
