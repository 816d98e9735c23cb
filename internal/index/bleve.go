package index

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/blevesearch/bleve/v2"
	"github.com/blevesearch/bleve/v2/analysis/analyzer/custom"
	"github.com/blevesearch/bleve/v2/analysis/analyzer/keyword"
	"github.com/blevesearch/bleve/v2/analysis/tokenizer/whitespace"
	"github.com/blevesearch/bleve/v2/index/scorch"
	"github.com/blevesearch/bleve/v2/mapping"
	bleveindex "github.com/blevesearch/bleve_index_api"

	"github.com/mcp-metarouter/metarouter/internal/vectors"
	"github.com/mcp-metarouter/metarouter/registry"
)

// errClosed is returned by searches after Close.
var errClosed = errors.New("index closed")

// An index is the bleve index, and the collection that says what is in it.
//
// Scorch in memory never merges its segments: each batch leaves one behind,
// with the documents that were since deleted still in it. So after maxBatches
// the whole index is built again, while the old one is still searched.
type index struct {
	items func(*registry.Snapshot) []registry.Item // what of a snapshot is in it
	model *vectors.Model
	ready atomic.Pointer[Collection] // what searches see

	// writing holds a token while a goroutine writes. It guards the fields below.
	writing chan struct{}
	next    *Collection // what was written so far; ahead of ready in the middle of catchUp
	into    bleve.Index // what is written to; nil until there is something to write
	batches int         // written to into

	mu     sync.RWMutex // guards live and closed; held for reading throughout a search
	live   bleve.Index  // what is searched; nil until something was written
	closed bool

	tallies sync.Pool // of []tally
}

const (
	batchSize  = 2000 // items; a catchUp overstays its context by one batch at most
	maxBatches = 64
)

func newIndex(items func(*registry.Snapshot) []registry.Item, model *vectors.Model) *index {
	x := &index{items: items, model: model, writing: make(chan struct{}, 1)}
	x.next = x.empty()
	x.ready.Store(x.empty())
	return x
}

func (x *index) empty() *Collection {
	c := &Collection{Snapshot: &registry.Snapshot{}, docs: map[string]*Document{}, docFreq: map[string]int{}, index: x}
	return c.clone()
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
	if x.isClosed() {
		return nil, errClosed
	}
	wanted := make(map[string]registry.Item)
	for _, item := range x.items(want) {
		wanted[docID(item)] = item
	}
	if len(x.outdated(wanted)) > 0 && (x.into == nil || x.batches >= maxBatches) {
		if err := x.restart(); err != nil {
			return nil, err
		}
	}
	stems, written := make(Stemmer), 0
	for ids := range slices.Chunk(x.outdated(wanted), batchSize) {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("wait for the index: %w", context.Cause(ctx))
		}
		docs := make([]*Document, len(ids)) // nil for items that are gone
		for i, id := range ids {
			if item, ok := wanted[id]; ok {
				docs[i] = ready.docs[id]
				if docs[i] == nil || docs[i].Item != item {
					docs[i] = newDocument(item, stems, x.model)
				}
			}
		}
		if err := x.write(ids, docs); err != nil {
			return nil, fmt.Errorf("write the index: %w", err)
		}
		written += len(ids)
	}
	x.next.Snapshot = want
	c, err := x.publish()
	if written >= manyDocuments {
		debug.FreeOSMemory()
	}
	return c, err
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

// restart begins an empty index, for which all items are outdated.
func (x *index) restart() error {
	if x.into != nil && x.into != x.live { // an earlier restart that failed
		if err := x.into.Close(); err != nil {
			return fmt.Errorf("drop the unfinished index: %w", err)
		}
	}
	into, err := openBleve()
	if err != nil {
		return fmt.Errorf("open the index: %w", err)
	}
	x.into, x.batches, x.next = into, 0, x.empty()
	return nil
}

// write brings items into the index, or out of it where the document is nil,
// in one batch.
func (x *index) write(ids []string, docs []*Document) error {
	batch := x.into.NewBatch()
	for i, id := range ids {
		if docs[i] == nil {
			batch.Delete(id)
		} else if err := batch.Index(id, entry(docs[i])); err != nil {
			return err
		}
	}
	if err := x.into.Batch(batch); err != nil {
		return err
	}
	x.batches++
	for i, id := range ids {
		x.next.put(id, docs[i])
	}
	return nil
}

// publish lets searches see what was written.
func (x *index) publish() (*Collection, error) {
	c := x.next.clone()
	x.ready.Store(c)
	x.mu.Lock()
	old := x.live
	x.live = x.into
	x.mu.Unlock()
	if old != nil && old != x.into {
		if err := old.Close(); err != nil {
			return nil, fmt.Errorf("close the old index: %w", err)
		}
	}
	return c, nil
}

func (x *index) isClosed() bool {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.closed
}

// close waits until all writes and searches have ended, and bleve's goroutines.
func (x *index) close() error {
	x.writing <- struct{}{}
	defer func() { <-x.writing }()
	x.mu.Lock()
	live := x.live
	x.live, x.closed = nil, true
	x.mu.Unlock()
	var errs []error
	if live != nil {
		errs = append(errs, live.Close())
	}
	if x.into != nil && x.into != live {
		errs = append(errs, x.into.Close())
	}
	x.into = nil
	return errors.Join(errs...)
}

// The fields of an item in bleve. There is one for all words, since term
// frequencies must be summed before they are saturated.
const (
	textField       = "text"
	serverField     = "server"
	capabilityField = "capability"
)

func openBleve() (bleve.Index, error) {
	m, err := newMapping()
	if err != nil {
		return nil, err
	}
	return bleve.NewUsing("", m, scorch.Name, scorch.Name, nil)
}

func newMapping() (mapping.IndexMapping, error) {
	m := bleve.NewIndexMapping()
	m.ScoringModel = bleveindex.BM25Scoring // the default is TF-IDF
	if err := m.AddCustomAnalyzer("words", map[string]any{
		"type":      custom.Name,
		"tokenizer": whitespace.Name,
	}); err != nil {
		return nil, err
	}
	text := mapping.NewTextFieldMapping()
	text.Analyzer = "words"
	tag := mapping.NewTextFieldMapping()
	tag.Analyzer = keyword.Name
	for _, field := range []*mapping.FieldMapping{text, tag} {
		field.Store, field.IncludeInAll, field.IncludeTermVectors, field.DocValues = false, false, false, false
	}
	item := bleve.NewDocumentStaticMapping()
	item.AddFieldMappingsAt(textField, text)
	item.AddFieldMappingsAt(serverField, tag)
	item.AddFieldMappingsAt(capabilityField, tag)
	m.DefaultMapping = item
	return m, nil
}

// repeats says how often a word of a field is written into the one field of
// bleve, which is how it gets its weight.
var repeats = [NumFields]int{
	NameField:        6,
	DescriptionField: 1,
	ParameterField:   1,
	ValueField:       1,
	ServerField:      6,
	CapabilityField:  1,
}

// repeated returns how often bleve has the word of an item.
func (t *Term) repeated() (n int) {
	for f, count := range t.Count {
		n += repeats[f] * int(count)
	}
	return n
}

// entry returns an item as bleve indexes it.
func entry(d *Document) map[string]any {
	var text strings.Builder
	for _, term := range d.Terms {
		for range term.repeated() {
			text.WriteString(term.Word)
			text.WriteByte(' ')
		}
	}
	return map[string]any{
		textField:       text.String(),
		serverField:     d.Server(),
		capabilityField: tags(d.Item),
	}
}
