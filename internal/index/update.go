package index

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/mcp-metarouter/metarouter/internal/vectors"
	"github.com/mcp-metarouter/metarouter/registry"
)

// errClosed is returned by searches after Close.
var errClosed = errors.New("index closed")

// An index keeps the newest collection of some of a registry's items.
//
// Each update leaves a segment behind, with the items that were since replaced still in it. So after
// maxSegments the whole index is built again, while the old collection is still searched.
type index struct {
	items    func(*registry.Snapshot) []registry.Item // what of a snapshot is in it
	model    func() *vectors.Model
	searched atomic.Bool                // whether there was a search
	ready    atomic.Pointer[Collection] // what searches see
	closed   atomic.Bool

	// writing holds a token while a goroutine writes. It guards next.
	writing chan struct{}
	next    *Collection // what was written so far: ready, but in the middle of catchUp

	tallies sync.Pool // of []tally
}

const (
	batchSize   = 2000 // items; a catchUp overstays its context by one batch at most
	maxSegments = 64
)

func newIndex(items func(*registry.Snapshot) []registry.Item, model func() *vectors.Model) *index {
	x := &index{items: items, model: model, writing: make(chan struct{}, 1)}
	x.next = x.empty()
	x.ready.Store(x.next)
	return x
}

func (x *index) empty() *Collection {
	c := &Collection{Snapshot: &registry.Snapshot{}, docs: map[string]*Document{}, docFreq: map[string]int{}, index: x}
	c.complete()
	return c
}

// current returns a collection for a search, once it is not older than the registry is now.
func (x *index) current(ctx context.Context, r *registry.Registry) (*Collection, error) {
	if !x.searched.Load() {
		x.searched.Store(true)
	}
	return x.catchUp(ctx, r.Snapshot())
}

// catchUp returns a collection that is not older than the snapshot. It indexes what is
// missing; what it has indexed when ctx ends is kept.
func (x *index) catchUp(ctx context.Context, want *registry.Snapshot) (*Collection, error) {
	if c := x.ready.Load(); c.Snapshot.Version >= want.Version {
		return c, nil
	}
	select {
	case x.writing <- struct{}{}:
		defer func() { <-x.writing }()
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for the index: %w", context.Cause(ctx))
	}
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
	if len(x.outdated(wanted)) > 0 && len(x.next.segments) >= maxSegments {
		x.next = x.empty() // for which all items are outdated
	} else if x.next == ready {
		x.next = ready.clone()
	}
	stems, written := make(Stemmer), 0
	var meaning *vectors.Bag // made when it is first needed, as the model is
	for ids := range slices.Chunk(x.outdated(wanted), batchSize) {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("wait for the index: %w", context.Cause(ctx))
		}
		docs := make([]*Document, len(ids)) // nil for items that are gone
		for i, id := range ids {
			if item, ok := wanted[id]; ok {
				docs[i] = ready.docs[id]
				if docs[i] == nil || docs[i].Item != item {
					if meaning == nil {
						meaning = x.model().NewBag()
					}
					docs[i] = newDocument(item, stems, meaning)
				}
			}
		}
		if err := x.write(ids, docs); err != nil {
			return nil, fmt.Errorf("write the index: %w", err)
		}
		written += len(ids)
	}
	x.next.Snapshot = want
	x.next.complete()
	x.ready.Store(x.next)
	if written >= manyDocuments {
		debug.FreeOSMemory()
	}
	return x.next, nil
}

// From manyDocuments written at once, memory is returned to the system at once: a process
// with little to do afterwards would keep it for long.
const manyDocuments = batchSize

// outdated returns the IDs of the items whose entry in the index is not what is
// wanted.
func (x *index) outdated(wanted map[string]registry.Item) []string {
	var ids []string
	for id, item := range wanted {
		if d, ok := x.next.docs[id]; !ok || d.Item != item {
			ids = append(ids, id)
		}
	}
	for id := range x.next.docs {
		if _, ok := wanted[id]; !ok {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// write brings items into the index, or out of it where the document is nil, in one batch. The IDs
// are sorted.
func (x *index) write(ids []string, docs []*Document) error {
	var segments []segment
	for _, s := range x.next.segments {
		if s = s.without(ids); s.live() > 0 {
			segments = append(segments, s)
		}
	}
	var added []string
	var entries []*Document
	for i, d := range docs {
		if d != nil {
			added, entries = append(added, ids[i]), append(entries, d)
		}
	}
	if len(added) > 0 {
		s, err := newSegment(added, entries)
		if err != nil {
			return err
		}
		segments = append(segments, s)
	}
	x.next.segments = segments
	for i, id := range ids {
		x.next.put(id, docs[i])
	}
	return nil
}

// close waits until all writes have ended. Later searches fail.
func (x *index) close() {
	x.writing <- struct{}{}
	defer func() { <-x.writing }()
	x.closed.Store(true)
	x.next = x.empty()
	x.ready.Store(x.next)
}
