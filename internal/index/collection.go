package index

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/mcp-metarouter/metarouter/internal/taglist"
	"github.com/mcp-metarouter/metarouter/registry"
)

// A Query asks for items by words.
type Query struct {
	Words        []string // as [Words] returns them
	Capabilities []string // only items that have all of these tags, as [taglist.Clean] returns them
	AtLeast      int      // if not 0, how many of Capabilities are enough
	Servers      []string // if not empty, only items of these servers, whatever the case of letters
	Within       Subset   // only items of these
	Limit        int      // the most hits to return; 0 means 100
}

// A Hit is an item that matches a query. Scores compare the hits of one query only.
type Hit struct {
	*Document
	Score float64
}

// A Collection is the tools of a snapshot as words, or all other items. It is immutable.
type Collection struct {
	Snapshot *registry.Snapshot // that the items belong to

	statistics

	docs   map[string]*Document // by docID
	all    []*Document          // the same, by docID
	index  *index
	isPart bool // the index has more items

	spelling func() spelling // made when it is first needed
}

// Documents returns all items, by ID. The slice must not be modified.
func (c *Collection) Documents() []*Document { return c.all }

// Document returns the item as words, if it is the same as when the index was made. What a
// profile made of a tool has the words of the tool.
func (c *Collection) Document(i registry.Item) (*Document, bool) {
	d, ok := c.docs[docID(i)]
	return d, ok && isOf(i, d.Item)
}

// Search returns the items that best match the query, best first, items of
// equal score by ID. A query with words that no item has finds nothing.
func (c *Collection) Search(ctx context.Context, q Query) ([]Hit, error) {
	if q.Within.part != nil {
		c = q.Within.part
	}
	words := c.telling(q)
	if len(words) == 0 {
		return nil, nil
	}
	if q.Limit <= 0 {
		q.Limit = 100
	}
	if c.isPart {
		return c.searchAll(ctx, words, q)
	}
	return c.search(ctx, words, q)
}

// Admits reports whether the item is of the subset and the servers, and has the capabilities,
// that the query asks for.
func (q *Query) Admits(d *Document) bool {
	if len(q.Servers) > 0 && !slices.ContainsFunc(q.Servers, func(name string) bool { return strings.EqualFold(name, d.Server()) }) {
		return false
	}
	least := len(q.Capabilities)
	if q.AtLeast > 0 {
		least = min(least, q.AtLeast)
	}
	return taglist.Count(tags(d.Item), q.Capabilities) >= least && q.Within.Has(d)
}

// clone returns a copy that put can change without changing c. It is of no use before complete.
func (c *Collection) clone() *Collection {
	copied := *c
	copied.docs, copied.docFreq = maps.Clone(c.docs), maps.Clone(c.docFreq)
	return &copied
}

// complete makes all that follows from the documents. They must not change any more.
func (c *Collection) complete() {
	c.all = make([]*Document, 0, len(c.docs))
	for _, id := range slices.Sorted(maps.Keys(c.docs)) {
		c.all = append(c.all, c.docs[id])
	}
	c.spelling = sync.OnceValue(func() spelling { return newSpelling(c.docFreq) })
}

// put makes d the document of an item; nil takes it out.
func (c *Collection) put(id string, d *Document) {
	if old, ok := c.docs[id]; ok {
		c.count(old, -1)
		delete(c.docs, id)
	}
	if d != nil {
		c.count(d, 1)
		c.docs[id] = d
	}
}

// statistics say how many items of a collection have a word, and how long the items are.
type statistics struct {
	items   int
	docFreq map[string]int // how many items have a word; no zeros
	length  [NumFields]int // how many words all items together have in a field
}

// Has reports whether any item has the word.
func (s *statistics) Has(word string) bool { return s.docFreq[word] > 0 }

// IDF returns the inverse document frequency of a word as BM25 defines it,
// ln(1 + (N−n+½)/(n+½)) for a word in n of N items.
func (s *statistics) IDF(word string) float64 {
	all, has := float64(s.items), float64(s.docFreq[word])
	return math.Log(1 + (all-has+0.5)/(has+0.5))
}

// MeanLen returns the mean number of words that an item has in the field.
func (s *statistics) MeanLen(f Field) float64 {
	return float64(s.length[f]) / max(1, float64(s.items))
}

// count counts an item n times.
func (s *statistics) count(d *Document, n int) {
	s.items += n
	for _, t := range d.Terms {
		if s.docFreq[t.Word] += n; s.docFreq[t.Word] == 0 {
			delete(s.docFreq, t.Word)
		}
	}
	for f, words := range d.Len {
		s.length[f] += n * int(words)
	}
}

// maxQueryWords bounds the work of one search; a longer query is reduced to its rarest words. With
// 40 a search of 14,321 tools takes half as long again in bleve and finds no more.
const maxQueryWords = 20

// telling returns the words of a query that any item has, the most telling first.
func (s *statistics) telling(q Query) (words []string) {
	for _, word := range q.Words {
		if s.Has(word) && !slices.Contains(words, word) {
			words = append(words, word)
		}
	}
	slices.SortFunc(words, func(a, b string) int { return cmp.Or(cmp.Compare(s.IDF(b), s.IDF(a)), cmp.Compare(a, b)) })
	return words[:min(len(words), maxQueryWords)]
}
