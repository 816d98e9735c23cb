package directory

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/signal"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"
)

const (
	putAgain = 8 * time.Hour // when definitions are put again, for the sweep to leave them
	old      = 24 * time.Hour

	shortestWait = time.Second // before another try
	longestWait  = 5 * time.Second
)

// publish puts the announcement whenever it has changed or would expire.
func (d *Directory) publish(ctx context.Context) {
	wait := shortestWait
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-d.dirty:
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		err := d.putAll(ctx)
		if ctx.Err() != nil {
			return
		}
		d.report("announcing servers", err)
		next := Refresh
		if err != nil {
			next, wait = wait, min(2*wait, longestWait)
		} else {
			wait = shortestWait
		}
		timer.Reset(next)
	}
}

// putAll puts definitions that may be missing, then the announcement.
func (d *Directory) putAll(ctx context.Context) error {
	d.mu.Lock()
	a := Announcement{
		Cluster: d.options.Cluster, Key: d.options.Key, Node: d.options.Node, Version: d.options.Version,
		Revision: d.revision, Servers: d.own,
	}
	d.mu.Unlock()
	if len(a.Servers) == 0 {
		return nil // an earlier one expires
	}
	b, err := d.ready(ctx)
	if err != nil {
		return err
	}
	for _, s := range a.Servers {
		if err := d.putDefinitions(ctx, b.definitions, s); err != nil {
			return err
		}
	}
	a.Time = time.Now().UnixMilli()
	data, err := a.encode(d.options.Signer)
	if err != nil {
		return err
	}
	if err := put(ctx, b.nodes, d.options.Key, data); err != nil {
		return err
	}
	return d.inspect(ctx, b.definitions)
}

// putDefinitions puts the definitions of a server, unless it did so lately.
func (d *Directory) putDefinitions(ctx context.Context, kv jetstream.KeyValue, server Server) error {
	sum := server.Definitions.Sum
	d.mu.Lock()
	s, ok := d.mine[sum]
	last, done := d.put[sum]
	d.mu.Unlock()
	if !ok || done && time.Since(last) < putAgain {
		return nil
	}
	for i, piece := range s.pieces {
		if err := put(ctx, kv, s.key(i), piece); err != nil {
			return fmt.Errorf("put the definitions of %s: %w", server.Name, err)
		}
	}
	d.mu.Lock()
	d.put[sum] = time.Now()
	d.mu.Unlock()
	return nil
}

// inspect compares the next piece of our definitions with the bucket, and has these definitions put
// again if it was removed or replaced: all nodes may write to that bucket.
func (d *Directory) inspect(ctx context.Context, kv jetstream.KeyValue) error {
	d.mu.Lock()
	var pieces []string
	for _, sum := range slices.Sorted(maps.Keys(d.put)) {
		for i := range d.mine[sum].pieces {
			pieces = append(pieces, d.mine[sum].key(i))
		}
	}
	if len(pieces) == 0 {
		d.mu.Unlock()
		return nil
	}
	key := pieces[d.inspected%len(pieces)]
	d.inspected++
	sum, _, _ := strings.Cut(key, ".")
	s := d.mine[sum]
	d.mu.Unlock()
	there, err := get(ctx, kv, key)
	if err != nil && !errors.Is(err, jetstream.ErrKeyNotFound) {
		return err
	}
	for i, piece := range s.pieces {
		if s.key(i) == key && (err != nil || !samePiece(piece, there, s.Piece)) {
			d.options.Log.Warn("definitions of this node were removed or replaced; putting them again", zap.String("key", key))
			d.mu.Lock()
			delete(d.put, sum)
			d.mu.Unlock()
			signal.Leave(d.dirty)
		}
	}
	return nil
}

// samePiece reports whether two pieces are the same but for how they are compressed: other versions
// may do it in another way.
func samePiece(ours, theirs []byte, limit int) bool {
	if bytes.Equal(ours, theirs) {
		return true
	}
	a, err := expand(ours, limit)
	b, err2 := expand(theirs, limit)
	return err == nil && err2 == nil && bytes.Equal(a, b)
}

func put(ctx context.Context, kv jetstream.KeyValue, key string, value []byte) error {
	ctx, cancel := context.WithTimeout(ctx, try)
	defer cancel()
	_, err := kv.Put(ctx, key, value)
	return err
}

// sweepNowAndThen removes old definitions.
func (d *Directory) sweepNowAndThen(ctx context.Context) {
	ticker := time.NewTicker(putAgain)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			if n, err := d.sweep(ctx, time.Now()); err != nil {
				d.options.Log.Debug("the sweep of old definitions failed; another follows in 8 hours", zap.Error(err))
			} else if n > 0 {
				d.options.Log.Info("removed definitions that no node has shared for a day", zap.Int("pieces", n))
			}
		case <-ctx.Done():
			return
		}
	}
}
