package directory

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/mcp-metarouter/metarouter/internal/signal"
)

const (
	// beatEvery is the time between two puts of the load; a changed load is put after beatSoon.
	beatEvery = time.Second
	beatSoon  = 200 * time.Millisecond

	// watchWait is how long the watch may show no load of this router before it starts again.
	watchWait = 5 * time.Second

	putAgain     = 8 * time.Hour // before values expire
	shortestWait = time.Second   // before another try
	longestWait  = 5 * time.Second

	maxCache = 256 << 20 // bytes of definitions in memory, compressed
)

// publish puts the announcement whenever it has changed or would expire.
func (d *Directory) publish(ctx context.Context) {
	wait := shortestWait
	timer := time.NewTimer(putAgain)
	defer timer.Stop()
	for {
		select {
		case <-d.dirty:
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		next := putAgain
		err := d.putAll(ctx)
		if ctx.Err() != nil {
			return
		}
		d.report("announcing servers", err)
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
	d.putting.Lock()
	defer d.putting.Unlock()
	a := d.self()
	if a.Router == "" {
		return nil
	}
	kv, err := d.open(ctx)
	if err != nil {
		return err
	}
	for _, s := range a.Servers {
		if err := d.putDefinitions(ctx, kv, s.Definitions.Sum); err != nil {
			return fmt.Errorf("put the definitions of %s: %w", s.Name, err)
		}
	}
	return d.putAnnouncement(ctx, kv, a)
}

func (d *Directory) putAnnouncement(ctx context.Context, kv jetstream.KeyValue, a Announcement) error {
	value, err := a.encode(d.options.Sign)
	if err != nil {
		return err
	}
	d.mu.Lock()
	d.last = sha256.Sum256(value)
	d.mu.Unlock()
	return put(ctx, kv, d.nodeKey(a.Router), value)
}

func (d *Directory) nodeKey(router string) string { return d.options.Key + "." + router + ".node" }
func (d *Directory) loadKey(router string) string { return d.options.Key + "." + router + ".load" }

func chunkKey(key, sum string, i int) string { return fmt.Sprintf("%s.def.%s.%d", key, sum, i) }

// putDefinitions puts definitions, unless it did so lately.
func (d *Directory) putDefinitions(ctx context.Context, kv jetstream.KeyValue, sum string) error {
	d.mu.Lock()
	p, ok := d.mine[sum]
	last := d.put[sum]
	d.mu.Unlock()
	if !ok || time.Since(last) < putAgain/2 {
		return nil
	}
	for i := range p.Chunks {
		if err := put(ctx, kv, chunkKey(d.options.Key, sum, i), p.chunk(i)); err != nil {
			return err
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.put[sum] = time.Now()
	return nil
}

// beat puts the load each second, and when it has changed.
func (d *Directory) beat(ctx context.Context) {
	ticker := time.NewTicker(beatSoon)
	defer ticker.Stop()
	var last []byte
	var at time.Time
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		a := d.self()
		if a.Router == "" || a.Leaving {
			continue
		}
		load := d.options.Load()
		if time.Since(at) < beatEvery && bytes.Equal(load, last) {
			continue
		}
		last, at = load, time.Now()
		kv, err := d.open(ctx)
		if err == nil {
			err = put(ctx, kv, d.loadKey(a.Router), load)
		}
		if ctx.Err() != nil {
			return
		}
		d.report("saying that this router lives", err)
		d.mu.Lock()
		if err == nil && time.Since(d.seen) > watchWait {
			d.seen = time.Now()
			signal.Leave(d.again)
		}
		d.mu.Unlock()
	}
}

// Leave puts an announcement that says that this router leaves.
func (d *Directory) Leave(ctx context.Context) error {
	d.mu.Lock()
	d.own.Leaving = true
	d.own.Revision++
	d.mu.Unlock()
	d.putting.Lock()
	defer d.putting.Unlock()
	a := d.self()
	kv, err := d.open(ctx)
	if err != nil || a.Router == "" {
		return err
	}
	return d.putAnnouncement(ctx, kv, a)
}

// Remove removes the values of a router of this node that has ended.
func (d *Directory) Remove(ctx context.Context, router string) error {
	kv, err := d.open(ctx)
	if err != nil {
		return err
	}
	return errors.Join(kv.Purge(ctx, d.nodeKey(router)), kv.Purge(ctx, d.loadKey(router)))
}

// watch follows the values of routers.
func (d *Directory) watch(ctx context.Context) {
	wait := shortestWait
	for ctx.Err() == nil {
		began := time.Now()
		err := d.follow(ctx)
		if ctx.Err() != nil {
			return
		}
		if err == nil { // it is to begin again
			continue
		}
		d.report("watching announcements", err)
		if time.Since(began) > longestWait {
			wait = shortestWait
		}
		select {
		case <-time.After(wait):
		case <-d.again:
		case <-ctx.Done():
			return
		}
		wait = min(2*wait, longestWait)
	}
}

// follow reads the values and their changes until ctx ends or the watch has to start again: then it
// returns nil. One consumer reads both kinds.
func (d *Directory) follow(ctx context.Context) error {
	kv, err := d.open(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	starting := time.AfterFunc(try, cancel)
	w, err := kv.WatchFiltered(ctx, []string{"*.*.node", "*.*.load"})
	if !starting.Stop() {
		err = context.DeadlineExceeded
	}
	if err != nil {
		return err
	}
	defer stop(w)
	stored := true
	for {
		select {
		case e, ok := <-w.Updates():
			switch {
			case !ok:
				return errors.New("the watch of the announcements ended")
			case e == nil:
				stored = false
				d.report("watching announcements", nil)
				d.haveWatched()
			default:
				d.take(e, stored)
			}
		case <-d.again:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// stop ends a watch, which may be about to send.
func stop(w jetstream.KeyWatcher) {
	_ = w.Stop() // it has ended if that fails
	limit := time.After(shortestWait)
	for {
		select {
		case _, ok := <-w.Updates():
			if !ok {
				return
			}
		case <-limit:
			return
		}
	}
}

func (d *Directory) haveWatched() {
	d.options.Watched()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.watched = true
	d.changed.Notify()
}

// take passes a value on. The removal of a value says nothing: it may have expired.
func (d *Directory) take(e jetstream.KeyValueEntry, stored bool) {
	key, rest, _ := strings.Cut(e.Key(), ".")
	router, kind, _ := strings.Cut(rest, ".")
	isPut := e.Operation() == jetstream.KeyValuePut
	if a := d.self(); key == a.Key && router == a.Router {
		d.mu.Lock()
		d.seen = time.Now()
		if kind == "node" && !stored && !a.Leaving && (!isPut || sha256.Sum256(e.Value()) != d.last) {
			signal.Leave(d.dirty) // another client of NATS has removed or replaced it
		}
		d.mu.Unlock()
		return
	}
	switch {
	case !isPut:
	case kind == "node":
		d.options.Announced(key, router, e.Value(), stored)
	case kind == "load":
		d.options.Loaded(key, router, e.Value(), stored)
	}
}

// Fetch returns the definitions of a server that the node with the key has announced. The first time it waits for
// JetStream, for at most 4 s per chunk. The error is a sentence for people.
func (d *Directory) Fetch(ctx context.Context, key string, s Server) (*Definitions, error) {
	r := s.Definitions
	d.mu.Lock()
	p, ok := d.cache[r.Sum]
	d.mu.Unlock()
	if ok {
		return p.unpack(s.Tools)
	}
	kv, err := d.open(ctx)
	if err != nil {
		return nil, errors.New(words(err))
	}
	p = packed{Reference: r}
	for i := range r.Chunks {
		chunk, err := get(ctx, kv, chunkKey(key, r.Sum, i))
		if errors.Is(err, jetstream.ErrKeyNotFound) {
			return nil, fmt.Errorf("its definitions %.8s are not in JetStream yet", r.Sum)
		}
		if err != nil {
			return nil, errors.New(words(err))
		}
		if len(p.data)+len(chunk) > r.Size+r.Size/64+1024 { // bytes that can't be compressed get a little longer
			return nil, errors.New("its definitions have more bytes than were announced")
		}
		p.data = append(p.data, chunk...)
	}
	definitions, err := p.unpack(s.Tools)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	size := len(p.data)
	for _, other := range d.cache {
		size += len(other.data)
	}
	if size <= maxCache {
		d.cache[r.Sum] = p
	}
	return definitions, nil
}

// Retain drops the definitions in memory but for those with the hashes.
func (d *Directory) Retain(sums map[string]bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for sum := range d.cache {
		if !sums[sum] {
			delete(d.cache, sum)
		}
	}
}
