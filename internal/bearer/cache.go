package bearer

import (
	"crypto/sha256"
	"sync"
	"time"
)

// A cache keeps values by the hash of a token, each until its time. When it is full it drops all.
type cache[T any] struct {
	most, mostBytes int

	mu    sync.Mutex // guards the fields below
	byKey map[[sha256.Size]byte]kept[T]
	bytes int
}

type kept[T any] struct {
	value T
	until time.Time
	bytes int
}

func newCache[T any](most, mostBytes int) *cache[T] {
	return &cache[T]{most: most, mostBytes: mostBytes, byKey: map[[sha256.Size]byte]kept[T]{}}
}

func (c *cache[T]) get(key [sha256.Size]byte) (value T, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k, ok := c.byKey[key]
	if ok && !time.Now().Before(k.until) {
		c.remove(key)
		return value, false
	}
	return k.value, ok
}

// put keeps the value, which takes so many bytes.
func (c *cache[T]) put(key [sha256.Size]byte, value T, until time.Time, bytes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.remove(key)
	if len(c.byKey) >= c.most || c.bytes+bytes > c.mostBytes {
		clear(c.byKey)
		c.bytes = 0
	}
	if bytes <= c.mostBytes {
		c.byKey[key] = kept[T]{value, until, bytes}
		c.bytes += bytes
	}
}

func (c *cache[T]) drop(key [sha256.Size]byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.remove(key)
}

// remove forgets a value, if it is kept. c.mu must be held.
func (c *cache[T]) remove(key [sha256.Size]byte) {
	c.bytes -= c.byKey[key].bytes
	delete(c.byKey, key)
}
