package bearer

import (
	"context"
	"crypto/sha256"
	"maps"
	"sync"
	"time"
)

const (
	maxKept  = 10_000   // verdicts
	maxBytes = 32 << 20 // of their tokens
)

// A verdict is what is kept of a token.
type verdict struct {
	token   *verified // nil if it was never valid
	refused error     // nil if it is valid
	issuer  *issuer   // that has issued it, or was asked first
	fresh   time.Time // until when it counts
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
	most, mostBytes int

	mu    sync.Mutex // guards the fields below
	byKey map[[sha256.Size]byte]kept
	bytes int
}

type kept struct {
	verdict
	until time.Time
	bytes int
}

func newCache(most, mostBytes int) *cache {
	return &cache{most: most, mostBytes: mostBytes, byKey: map[[sha256.Size]byte]kept{}}
}

func (c *cache) get(key [sha256.Size]byte) (verdict, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k, ok := c.byKey[key]
	return k.verdict, ok && time.Now().Before(k.until)
}

// put keeps a verdict, which takes so many bytes.
func (c *cache) put(key [sha256.Size]byte, v verdict, last time.Duration, bytes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bytes -= c.byKey[key].bytes
	delete(c.byKey, key)
	now := time.Now()
	if len(c.byKey) >= c.most || c.bytes+bytes > c.mostBytes {
		maps.DeleteFunc(c.byKey, func(_ [sha256.Size]byte, k kept) bool {
			over := !now.Before(k.until)
			if over {
				c.bytes -= k.bytes
			}
			return over
		})
		if len(c.byKey) > c.most*9/10 || c.bytes+bytes > c.mostBytes*9/10 { // rare, since this looked at all
			clear(c.byKey)
			c.bytes = 0
		}
	}
	if bytes <= c.mostBytes {
		c.byKey[key] = kept{v, now.Add(last), bytes}
		c.bytes += bytes
	}
}
