package directory

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// maxCache bounds the definitions of all nodes that are kept in memory, compressed.
const maxCache = 256 << 20

// A cache has definitions in memory, by hash.
type cache struct {
	items map[string]*cached
	bytes int
}

type cached struct {
	stored
	used time.Time
}

// Fetch returns definitions. The first time it waits for JetStream, for at most 15 s per piece. The
// error is a sentence for people.
func (d *Directory) Fetch(ctx context.Context, r Reference) (*Definitions, error) {
	d.mu.Lock()
	c, ok := d.cache.items[r.Sum]
	if ok {
		c.used = time.Now()
	}
	d.mu.Unlock()
	if ok {
		return c.load()
	}
	s, err := d.fetch(ctx, r)
	if err != nil {
		return nil, err
	}
	definitions, err := s.load()
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.cache.add(s)
	return definitions, nil
}

func (d *Directory) fetch(ctx context.Context, r Reference) (stored, error) {
	s := stored{Reference: r}
	b, err := d.ready(ctx)
	if err != nil {
		return s, errors.New(words(err))
	}
	for i := range r.count() {
		piece, err := get(ctx, b.definitions, r.key(i))
		if errors.Is(err, jetstream.ErrKeyNotFound) {
			return s, fmt.Errorf("its definitions %.8s are not in JetStream yet", r.Sum)
		}
		if err != nil {
			return s, errors.New(words(err))
		}
		if len(piece) > r.Piece+r.Piece/64+256 { // bytes that can't be compressed get a little longer
			return s, errors.New("a piece of its definitions is too large")
		}
		s.pieces = append(s.pieces, piece)
	}
	return s, nil
}

func get(ctx context.Context, kv jetstream.KeyValue, key string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, try)
	defer cancel()
	e, err := kv.Get(ctx, key)
	if err != nil {
		return nil, err
	}
	return e.Value(), nil
}

// add keeps definitions, and drops others, those used longest ago first, if they are too many.
func (c *cache) add(s stored) {
	n := s.bytes()
	if _, ok := c.items[s.Sum]; ok || n > maxCache {
		return
	}
	for c.bytes+n > maxCache {
		var oldest *cached
		for _, item := range c.items {
			if oldest == nil || item.used.Before(oldest.used) {
				oldest = item
			}
		}
		c.drop(oldest.Sum)
	}
	c.items[s.Sum] = &cached{s, time.Now()}
	c.bytes += n
}

func (c *cache) drop(sum string) {
	c.bytes -= c.items[sum].bytes()
	delete(c.items, sum)
}

// Retain drops the definitions in memory but for those with the hashes.
func (d *Directory) Retain(sums map[string]bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for sum := range d.cache.items {
		if !sums[sum] {
			d.cache.drop(sum)
		}
	}
}
