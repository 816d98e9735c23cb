package index

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"sync/atomic"

	"github.com/mcp-metarouter/metarouter/registry"
)

// errClosed is returned by searches after Close.
var errClosed = errors.New("index closed")

// An index keeps the newest collection of some of a registry's items, and their words in bleve.
type index struct {
	items    func(*registry.Snapshot) []registry.Item // the items of a snapshot that are in it
	searched atomic.Bool                              // whether there was a search
	ready    atomic.Pointer[Collection]               // for searches
	words    atomic.Pointer[inverted]                 // of next; nil until there are items
	closed   atomic.Bool

	// writing holds a token while a goroutine writes. It guards the fields below, and writes to words.
	writing chan struct{}
	next    *Collection // written so far: ready, but in the middle of catchUp
	updates int         // of words
}

const (
	batchSize  = 2000 // items; a catchUp overstays its context by one batch at most
	maxUpdates = 64   // of bleve's index, until it is made again
)

func newIndex(items func(*registry.Snapshot) []registry.Item) *index {
	x := &index{items: items, writing: make(chan struct{}, 1)}
	x.next = x.empty()
	x.ready.Store(x.next)
	return x
}

func (x *index) empty() *Collection {
	c := &Collection{Snapshot: &registry.Snapshot{}, docs: map[string]*Document{}, statistics: statistics{docFreq: map[string]int{}}, index: x}
	c.complete()
	return c
}

// current returns a collection for a search, once it is not older than the registry is now.
func (x *index) current(ctx context.Context, r *registry.Registry) (*Collection, error) {
	x.searched.Store(true)
	return x.catchUp(ctx, r.Snapshot())
}

// catchUp returns a collection that is not older than the snapshot. It indexes the items that are
// missing; the items that it has indexed when ctx ends are kept.
func (x *index) catchUp(ctx context.Context, want *registry.Snapshot) (*Collection, error) {
	if c := x.ready.Load(); c.Snapshot.Version >= want.Version {
		return c, nil
	}
	select {
	case x.writing <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for the index: %w", context.Cause(ctx))
	}
	defer func() { <-x.writing }()
	ready := x.ready.Load()
	if ready.Snapshot.Version >= want.Version {
		return ready, nil // another goroutine has done it
	}
	if x.closed.Load() {
		return nil, errClosed
	}
	wanted := make(map[string]registry.Item)
	for _, item := range x.items(want) {
		wanted[docID(item)] = item
	}
	if x.next == ready {
		x.next = ready.clone()
	}
	changed := outdated(x.next.docs, wanted)
	stems := make(Stemmer)
	for ids := range slices.Chunk(changed, batchSize) {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("wait for the index: %w", context.Cause(ctx))
		}
		docs := make(map[string]*Document, len(ids))
		for _, id := range ids {
			if item, ok := wanted[id]; ok {
				docs[id] = newDocument(item, stems)
			}
		}
		if err := x.write(ids, docs); err != nil {
			return nil, fmt.Errorf("write the index: %w", err)
		}
	}
	x.next.Snapshot = want
	x.next.complete()
	x.ready.Store(x.next)
	if len(changed) >= batchSize {
		debug.FreeOSMemory() // a process with little to do afterwards would keep it for long
	}
	return x.next, nil
}

// outdated returns the IDs of the items whose documents are not as they are wanted, and
// of those that are not wanted.
func outdated(docs map[string]*Document, wanted map[string]registry.Item) (ids []string) {
	for id, item := range wanted {
		if d, ok := docs[id]; !ok || d.Item != item {
			ids = append(ids, id)
		}
	}
	for id := range docs {
		if _, ok := wanted[id]; !ok {
			ids = append(ids, id)
		}
	}
	return ids
}

// write replaces the documents of the items with the IDs, in one batch. An item without one is
// taken out.
func (x *index) write(ids []string, docs map[string]*Document) error {
	if x.words.Load() == nil || x.updates == maxUpdates {
		if err := x.renew(); err != nil {
			return err
		}
	}
	if err := x.words.Load().write(ids, docs); err != nil {
		return err
	}
	x.updates++
	for _, id := range ids {
		x.next.put(id, docs[id])
	}
	return nil
}

// renew makes bleve's index again after many updates. Each left a segment in it that is searched, with
// the items that were replaced since.
func (x *index) renew() error {
	words, err := newInverted()
	if err != nil {
		return err
	}
	for ids := range slices.Chunk(slices.Collect(maps.Keys(x.next.docs)), batchSize) {
		if err := words.write(ids, x.next.docs); err != nil {
			return errors.Join(err, words.Close())
		}
	}
	x.updates = 0
	if old := x.words.Swap(words); old != nil {
		return old.Close()
	}
	return nil
}

// close waits until all writes have ended. Later searches fail.
func (x *index) close() error {
	x.writing <- struct{}{}
	defer func() { <-x.writing }()
	if x.closed.Swap(true) {
		return nil
	}
	x.next = x.empty()
	x.ready.Store(x.next)
	if words := x.words.Load(); words != nil {
		return words.Close()
	}
	return nil
}
