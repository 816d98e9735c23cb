package directory

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strconv"
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

	putAgain = 8 * time.Hour   // before values expire
	tryAgain = 2 * time.Second // after a failure
	stopWait = time.Second
)

// publish puts the announcement whenever it has changed or would expire.
func (d *Directory) publish(ctx context.Context) {
	for wait := putAgain; ; {
		select {
		case <-d.dirty:
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
		err := d.putAll(ctx)
		if ctx.Err() != nil {
			return
		}
		d.report("announcing servers", err)
		if wait = putAgain; err != nil {
			wait = tryAgain
		}
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
	value, err := a.encode(d.options.Sign)
	if err != nil {
		return err
	}
	d.mu.Lock()
	d.last = sha256.Sum256(value)
	d.mu.Unlock()
	return put(ctx, kv, d.nodeKey(a.Router), value)
}

func (d *Directory) nodeKey(router string) string { return d.options.Own.Key + "." + router + ".node" }
func (d *Directory) loadKey(router string) string { return d.options.Own.Key + "." + router + ".load" }

func chunkKey(key, sum string, i int) string { return fmt.Sprintf("%s.def.%s.%d", key, sum, i) }

// putDefinitions puts definitions, unless it did so lately.
func (d *Directory) putDefinitions(ctx context.Context, kv jetstream.KeyValue, sum string) error {
	d.mu.Lock()
	p := d.mine[sum]
	fresh := p == nil || time.Since(p.put) < putAgain/2
	if !fresh {
		p.put = time.Now() // before, so that a value that is replaced meanwhile is put again
	}
	d.mu.Unlock()
	if fresh {
		return nil
	}
	for i := range p.Chunks {
		if err := put(ctx, kv, chunkKey(d.options.Own.Key, sum, i), p.chunk(i)); err != nil {
			d.mu.Lock()
			defer d.mu.Unlock()
			if p := d.mine[sum]; p != nil {
				p.put = time.Time{}
			}
			return err
		}
	}
	return nil
}

// check has definitions put again if another client of NATS has replaced or removed a value of them.
func (d *Directory) check(name string, value []byte) {
	sum, number, _ := strings.Cut(name, ".")
	i, err := strconv.Atoi(number)
	d.mu.Lock()
	defer d.mu.Unlock()
	if p := d.mine[sum]; p != nil && err == nil && i >= 0 && i < p.Chunks && !bytes.Equal(value, p.chunk(i)) {
		p.put = time.Time{}
		signal.Leave(d.dirty)
	}
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
	return d.putAll(ctx)
}

// Remove removes the values of this router.
func (d *Directory) Remove(ctx context.Context) error {
	router := d.self().Router
	kv, err := d.open(ctx)
	if err != nil {
		return err
	}
	return errors.Join(kv.Purge(ctx, d.nodeKey(router)), kv.Purge(ctx, d.loadKey(router)))
}

// watch follows the values of routers.
func (d *Directory) watch(ctx context.Context) {
	for ctx.Err() == nil {
		err := d.follow(ctx)
		if ctx.Err() != nil {
			return
		}
		if err == nil { // it is to begin again
			continue
		}
		d.report("watching announcements", err)
		select {
		case <-time.After(tryAgain):
		case <-d.again:
		case <-ctx.Done():
		}
	}
}

// follow reads the values and their changes until ctx ends or the watch has to start again: then it
// returns nil. One consumer reads all kinds, and of the definitions only this node's.
func (d *Directory) follow(ctx context.Context) error {
	kv, err := d.open(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	starting := time.AfterFunc(try, cancel)
	w, err := kv.WatchFiltered(ctx, []string{"*.*.node", "*.*.load", d.options.Own.Key + ".def.*.*"})
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
				d.mu.Lock()
				d.watched = true
				d.mu.Unlock()
				d.changed.Notify()
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
	limit := time.After(stopWait)
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

// take passes a value on. The removal of a value says nothing: it may have expired.
func (d *Directory) take(e jetstream.KeyValueEntry, stored bool) {
	key, rest, _ := strings.Cut(e.Key(), ".")
	router, kind, _ := strings.Cut(rest, ".")
	isPut := e.Operation() == jetstream.KeyValuePut
	if a := d.self(); key == a.Key && router == a.Router {
		d.mu.Lock()
		d.seen = time.Now()
		if kind == "node" && !a.Leaving && (!isPut || sha256.Sum256(e.Value()) != d.last) {
			signal.Leave(d.dirty) // another client of NATS has removed or replaced it
		}
		d.mu.Unlock()
		return
	}
	switch {
	case router == "def":
		d.check(kind, e.Value())
	case !isPut:
	case kind == "node":
		d.options.Announced(key, router, e.Value(), stored)
	case kind == "load":
		d.options.Loaded(key, router, e.Value(), stored, e.Created())
	}
}

// Fetch returns the definitions of a server that the node with the key has announced. It waits for
// JetStream for at most 4 s per chunk. The error is a sentence for people.
func (d *Directory) Fetch(ctx context.Context, key string, s Server) (*Definitions, error) {
	r := s.Definitions
	kv, err := d.open(ctx)
	if err != nil {
		return nil, errors.New(words(err))
	}
	p := &packed{Reference: r}
	for i := range r.Chunks {
		getting, cancel := context.WithTimeout(ctx, try)
		e, err := kv.Get(getting, chunkKey(key, r.Sum, i))
		cancel()
		if errors.Is(err, jetstream.ErrKeyNotFound) {
			return nil, fmt.Errorf("its definitions %.8s are not in JetStream yet", r.Sum)
		}
		if err != nil {
			return nil, errors.New(words(err))
		}
		if len(p.data)+len(e.Value()) > r.Size+r.Size/64+1024 { // bytes that can't be compressed get a little longer
			return nil, errors.New("its definitions have more bytes than were announced")
		}
		p.data = append(p.data, e.Value()...)
	}
	return p.unpack(s.Tools)
}
