package index

import (
	"context"
	"math"

	"github.com/blevesearch/bleve/v2/search"
)

// partOf returns the collection of some of the items alone. It is as one of an index that has
// only these.
func (c *Collection) partOf(set []bool) *Collection {
	part := &Collection{Snapshot: c.Snapshot, docs: make(map[string]*Document), statistics: statistics{docFreq: make(map[string]int)}, index: c.index, isPart: true}
	for i, d := range c.all {
		if set[i] {
			part.put(docID(d.Item), d)
		}
	}
	part.complete()
	return part
}

// searchAll is the search of a part: it looks at all its items, since bleve knows how rare a word is in
// the whole index only.
func (c *Collection) searchAll(ctx context.Context, words []string, q Query) ([]Hit, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if c.index.closed.Load() {
		return nil, errClosed
	}
	length := math.Ceil(float64(len(c.docFreq)) / float64(len(c.all))) // as in bleve
	var hits []Hit
	for _, d := range c.all {
		score, has := 0.0, 0
		for _, w := range words {
			if count, ok := d.Term(w); ok {
				idf := c.IDF(w)
				score += idf * idf * saturated(float64(repeated(count)), float64(d.norm), length)
				has++
			}
		}
		if score > 0 && q.Admits(d) {
			hits = append(hits, Hit{Document: d, Score: round(score * float64(has) / float64(len(words)))})
		}
	}
	return sorted(hits, q.Limit), nil
}

// saturated returns how much BM25 counts a word that an item has freq times, as bleve does, but for
// a factor. The norm is 1/√ of the item's length.
func saturated(freq, norm, meanLength float64) float64 {
	tf := math.Sqrt(freq)
	return tf / (tf + search.BM25_k1*(1-search.BM25_b+search.BM25_b/(norm*norm)/meanLength))
}
