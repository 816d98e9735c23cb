package index

import (
	"slices"

	"github.com/RoaringBitmap/roaring/v2"
	bleveindex "github.com/blevesearch/bleve_index_api"
	lists "github.com/blevesearch/scorch_segment_api/v2"
	zap "github.com/blevesearch/zapx/v17"
)

// A segment is the items of one batch in bleve's format: for each word, a list of the items that
// have it. It is immutable.
//
// These are the segments of bleve's scorch, without scorch itself: that would compile tables for
// fuzzy search whenever a process starts, and bring bleve's formats of earlier versions, a store on
// disk and goroutines.
type segment struct {
	lists   lists.Segment
	ids     []string        // of the items, sorted; an item's number is its index here
	deleted *roaring.Bitmap // numbers of items that a later batch replaced or removed; nil if there are none
	words   int             // different ones
}

// The fields of an item in a segment. There is one for all words, since term frequencies must be
// summed before they are saturated.
const (
	textField       = "text"
	serverField     = "server"
	capabilityField = "capability"
)

// newSegment returns the segment of some documents, whose IDs are sorted.
func newSegment(ids []string, docs []*Document) (segment, error) {
	entries := make([]bleveindex.Document, len(docs))
	for i, d := range docs {
		entries[i] = newEntry(d)
	}
	written, _, err := new(zap.ZapPlugin).New(entries)
	if err != nil {
		return segment{}, err
	}
	text, err := written.Dictionary(textField)
	if err != nil {
		return segment{}, err
	}
	return segment{lists: written, ids: ids, words: text.Cardinality()}, nil
}

// live returns how many items there are that are not deleted.
func (s segment) live() int {
	if s.deleted == nil {
		return len(s.ids)
	}
	return len(s.ids) - int(s.deleted.GetCardinality())
}

// without returns the segment without these items.
func (s segment) without(ids []string) segment {
	deleted := roaring.New()
	if s.deleted != nil {
		deleted = s.deleted.Clone()
	}
	for _, id := range ids {
		if n, ok := slices.BinarySearch(s.ids, id); ok {
			deleted.Add(uint32(n))
		}
	}
	if !deleted.IsEmpty() {
		s.deleted = deleted
	}
	return s
}

// repeats says how often a word of a field is counted in the one field of a segment, which is how
// it gets its weight.
var repeats = [NumFields]int{
	NameField:        6,
	DescriptionField: 1,
	ParameterField:   1,
	ValueField:       1,
	ServerField:      6,
	CapabilityField:  1,
}

// repeated returns how often a segment has the word of an item.
func (t *Term) repeated() (n int) {
	for f, count := range t.Count {
		n += repeats[f] * int(count)
	}
	return n
}

// An entry is an item as bleve's segments want it.
type entry struct{ fields []bleveindex.Field }

func newEntry(d *Document) *entry {
	text := field{name: textField, words: make(bleveindex.TokenFrequencies, len(d.Terms))}
	for i := range d.Terms {
		text.add(d.Terms[i].Word, d.Terms[i].repeated())
	}
	server := field{name: serverField, words: make(bleveindex.TokenFrequencies, 1)}
	server.add(d.Server(), 1)
	capabilities := field{name: capabilityField, words: make(bleveindex.TokenFrequencies)}
	for _, tag := range tags(d.Item) {
		capabilities.add(tag, 1)
	}
	return &entry{[]bleveindex.Field{&identifier{}, &text, &server, &capabilities}}
}

func (e *entry) VisitFields(visit bleveindex.FieldVisitor) {
	for _, f := range e.fields {
		visit(f)
	}
}

func (e *entry) ID() string                                      { return "" }
func (e *entry) Size() int                                       { return 0 }
func (e *entry) VisitComposite(bleveindex.CompositeFieldVisitor) {}
func (e *entry) HasComposite() bool                              { return false }
func (e *entry) NumPlainTextBytes() uint64                       { return 0 }
func (e *entry) AddIDField()                                     {}
func (e *entry) StoredFieldsBytes() uint64                       { return 0 }
func (e *entry) Indexed() bool                                   { return true }

// A field is words with how often an item has them.
type field struct {
	name   string
	words  bleveindex.TokenFrequencies
	length int // of all words, with repetitions
}

func (f *field) add(word string, times int) {
	known := f.words[word]
	if known == nil {
		known = &bleveindex.TokenFreq{Term: []byte(word)}
		f.words[word] = known
	}
	known.SetFrequency(known.Frequency() + times)
	f.length += times
}

func (f *field) Name() string                             { return f.name }
func (f *field) Value() []byte                            { return nil }
func (f *field) ArrayPositions() []uint64                 { return nil }
func (f *field) EncodedFieldType() byte                   { return 't' }
func (f *field) Analyze()                                 {}
func (f *field) Options() bleveindex.FieldIndexingOptions { return bleveindex.IndexField }
func (f *field) AnalyzedLength() int                      { return f.length }
func (f *field) NumPlainTextBytes() uint64                { return 0 }

func (f *field) AnalyzedTokenFrequencies() bleveindex.TokenFrequencies { return f.words }

// The identifier is a field that each item must have stored. It says nothing: an item is known by
// its number.
type identifier struct{ field }

func (identifier) Name() string                             { return "_id" }
func (identifier) Value() []byte                            { return []byte{0} }
func (identifier) Options() bleveindex.FieldIndexingOptions { return bleveindex.StoreField }
