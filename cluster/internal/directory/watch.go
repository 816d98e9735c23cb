package directory

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/cluster/internal/roster"
)

// watch follows the announcements.
func (d *Directory) watch(ctx context.Context) {
	wait := shortestWait
	for ctx.Err() == nil {
		began := time.Now()
		err := d.follow(ctx)
		if ctx.Err() != nil {
			return
		}
		if err == nil { // the nodes that are trusted have changed
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

var errWatchEnded = errors.New("the watch of the announcements ended")

// follow reads the announcements and their changes until ctx ends or the watch has to start again: then
// it returns nil.
func (d *Directory) follow(ctx context.Context) error {
	b, err := d.ready(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	starting := time.AfterFunc(try, cancel)
	w, err := b.nodes.WatchAll(ctx)
	if !starting.Stop() {
		err = context.DeadlineExceeded
	}
	if err != nil {
		return err
	}
	defer stop(w)
	for {
		select {
		case e, ok := <-w.Updates():
			switch {
			case !ok:
				return errWatchEnded
			case e == nil:
				d.report("watching announcements", nil)
				d.haveWatched()
			case e.Operation() == jetstream.KeyValuePut:
				d.take(e.Key(), e.Value())
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
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.watched {
		d.watched = true
		d.changed.Notify()
	}
}

// take notes an announcement if its node is trusted, and it is newer than the known one.
func (d *Directory) take(key string, data []byte) {
	if !d.trusted(key) {
		return
	}
	a, leftOut, err := decode(key, data)
	if err == nil {
		err = d.check(a)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if err != nil {
		d.refused++
		d.options.Log.Debug("refused an announcement", zap.String("key", key), zap.Error(err))
		return
	}
	before, ok := d.known[key]
	if ok && a.Time <= before.Time || !ok && len(d.known) >= MaxNodes {
		return
	}
	d.known[key] = a
	if ok && a.Revision == before.Revision && a.Node == before.Node {
		return
	}
	if leftOut > 0 {
		d.options.Log.Warn("left out servers of a node that shares too much", zap.String("node", a.Node), zap.Int("servers", leftOut))
	}
	d.changed.Notify()
}

// check returns why an announcement of a trusted node can't be used.
func (d *Directory) check(a *Announcement) error {
	switch {
	case a.Cluster != d.options.Cluster:
		return errors.New("it is for another cluster")
	case !roster.IsName(a.Node):
		return errors.New("it has no valid name of a node")
	case time.Until(time.UnixMilli(a.Time)) > roster.MaxClock:
		return errors.New("it is of the future: compare the clocks")
	}
	return nil
}

// patience is how long the watch has to bring an announcement before it is asked for.
const patience = time.Second

// ask asks for the announcements that are in force and did not come: a watch may have missed them.
func (d *Directory) ask(ctx context.Context) {
	wait := patience
	for {
		missing := d.missing()
		var due <-chan time.Time
		if len(missing) > 0 {
			due = time.After(wait)
		} else {
			wait = patience
		}
		select {
		case <-d.wanting:
			continue
		case <-d.Changed():
			continue
		case <-due:
		case <-ctx.Done():
			return
		}
		for _, key := range d.missing() {
			if err := d.askFor(ctx, key); err != nil {
				d.options.Log.Debug("can't get an announcement", zap.String("key", key), zap.Error(err))
				break
			}
		}
		wait = min(2*wait, longestWait)
	}
}

// missing returns the nodes with an announcement in force that is not known.
func (d *Directory) missing() (keys []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for key, revision := range d.wants {
		if a := d.known[key]; a == nil || a.Revision != revision {
			keys = append(keys, key)
		}
	}
	return keys
}

func (d *Directory) askFor(ctx context.Context, key string) error {
	b, err := d.ready(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, try)
	defer cancel()
	e, err := b.nodes.Get(ctx, key)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	d.take(key, e.Value())
	return nil
}
