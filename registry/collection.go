package registry

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"
)

// A Query asks for items by words.
type Query struct {
	Text string // plain text of any length; no character in it has a special meaning

	// Words are more words to look for, as [Words] returns them, and how much
	// each weighs; a word of Text weighs 1.
	Words map[string]float64

	Capabilities []string // only items that bear all of these tags
	AtLeast      int      // if not 0, how many of Capabilities are enough
	Servers      []string // if not empty, only items of these servers
	Limit        int      // the most hits to return; 0 means 100
}

// A Hit is an item that matches a query. Scores compare the hits of one query
// and mean nothing beyond it.
type Hit struct {
	*Document
	Score float64
}

// A Collection is a part of the catalog as words, at one moment: its tools, or
// all else. It is immutable.
type Collection struct {
	Snapshot *Snapshot // the catalog that it is of

	docs    map[string]*Document // by docID
	docFreq map[string]int       // how many items have a word; no zeros
	length  [NumFields]int       // how many words all items together have in a field
	index   *index
}

// Has reports whether any item has the word.
func (c *Collection) Has(word string) bool { return c.docFreq[word] > 0 }

// IDF returns the inverse document frequency of a word as BM25 defines it,
// ln(1 + (N−n+½)/(n+½)) for a word in n of N items.
func (c *Collection) IDF(word string) float64 {
	all, n := float64(len(c.docs)), float64(c.docFreq[word])
	return math.Log(1 + (all-n+0.5)/(n+0.5))
}

// MeanLen returns the mean number of words that an item has in the field.
func (c *Collection) MeanLen(f Field) float64 {
	return float64(c.length[f]) / max(1, float64(len(c.docs)))
}

// Search returns the items that best match the query, best first, those of
// equal score by ID. A query whose words no item has finds nothing.
func (c *Collection) Search(ctx context.Context, q Query) ([]Hit, error) {
	words := c.words(q)
	if len(words) == 0 {
		return nil, nil
	}
	if q.Limit <= 0 {
		q.Limit = 100
	}
	return c.index.search(ctx, c, words, q)
}

// maxQueryWords bounds the work of one search; a longer query is reduced to
// its rarest words.
const maxQueryWords = 128

type weightedWord struct {
	word   string
	weight float64
}

// words returns the words of a query that any item has, the most telling first.
func (c *Collection) words(q Query) []weightedWord {
	weights := maps.Clone(q.Words)
	if weights == nil {
		weights = make(map[string]float64)
	}
	for _, word := range Words(q.Text) {
		weights[word] = 1
	}
	var words []weightedWord
	for word, weight := range weights {
		if c.Has(word) {
			words = append(words, weightedWord{word, weight})
		}
	}
	slices.SortFunc(words, func(a, b weightedWord) int {
		return cmp.Or(
			cmp.Compare(b.weight*c.IDF(b.word), a.weight*c.IDF(a.word)),
			cmp.Compare(a.word, b.word))
	})
	return words[:min(len(words), maxQueryWords)]
}

// clone returns a copy that can be changed without changing c.
func (c *Collection) clone() *Collection {
	copied := *c
	copied.docs, copied.docFreq = maps.Clone(c.docs), maps.Clone(c.docFreq)
	return &copied
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

func (c *Collection) count(d *Document, n int) {
	for _, t := range d.Terms {
		if c.docFreq[t.Word] += n; c.docFreq[t.Word] == 0 {
			delete(c.docFreq, t.Word)
		}
	}
	for f, words := range d.Len {
		c.length[f] += n * words
	}
}
