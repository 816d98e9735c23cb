package index

import (
	"context"
	"math"
)

// partOf returns the collection of some of the items alone. It is as one of an index that has
// only these.
func (c *Collection) partOf(set bitset) *Collection {
	part := &Collection{Snapshot: c.Snapshot, docs: make(map[string]*Document), docFreq: make(map[string]int), index: c.index, isPart: true}
	for i, d := range c.all {
		if set.has(i) {
			part.put(docID(d.Item), d)
		}
	}
	part.complete()
	return part
}

// searchAll is the search of a part: it looks at all its items, since the lists of the segments are
// those of the whole index.
func (c *Collection) searchAll(ctx context.Context, words []weightedWord, q Query) ([]Hit, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if c.index.closed.Load() {
		return nil, errClosed
	}
	var wanted WordSet
	weights := make(map[string]float64, len(words))
	for _, w := range words {
		wanted.Add(w.word)
		weights[w.word] = w.weight
	}
	length := math.Ceil(float64(len(c.docFreq)) / float64(len(c.all))) // as that of a segment
	var hits []Hit
	for _, d := range c.all {
		score, has := 0.0, 0
		for i := range d.Terms {
			t := &d.Terms[i]
			if !wanted.MayHave(t) {
				continue
			}
			if weight, ok := weights[t.Word]; ok {
				score += bm25(weight, c.IDF(t.Word), float64(t.repeated()), float64(d.norm), length)
				has++
			}
		}
		if score > 0 && q.admits(d) {
			hits = append(hits, Hit{Document: d, Score: score * float64(has) / float64(len(words))})
		}
	}
	return sorted(hits, q.Limit), nil
}
