package index

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/blevesearch/bleve/v2"
	"github.com/blevesearch/bleve/v2/search"
	"github.com/blevesearch/bleve/v2/search/query"
)

// search returns the best of the items that have any of the words: by BM25, times the share of the
// words that an item has.
//
// bleve orders equal scores by its updates, and it adds up in an order that depends on
// them. So scores are rounded, and more hits asked for until all of the last score are there.
func (c *Collection) search(ctx context.Context, words []string, q Query) ([]Hit, error) {
	size := q.Limit + 1
	if n := q.Within.Len(); q.Within.set != nil && n > 0 {
		size *= 1 + len(c.all)/n
	}
	for request := c.request(words); ; size *= 8 {
		request.Size = size
		found, err := c.index.search(ctx, request)
		if err != nil {
			return nil, fmt.Errorf("search the index: %w", err)
		}
		hits := make([]Hit, 0, len(found.Hits))
		for _, f := range found.Hits {
			if d := c.docs[f.ID]; d != nil && q.Admits(d) { // nil: it is newer than the collection
				hits = append(hits, Hit{Document: d, Score: round(f.Score)})
			}
		}
		if len(found.Hits) < size || len(hits) >= q.Limit && round(found.Hits[size-1].Score) < hits[q.Limit-1].Score {
			return sorted(hits, q.Limit), nil
		}
	}
}

// request returns a query for any of the words as bleve wants it.
func (s *statistics) request(words []string) *bleve.SearchRequest {
	text := query.NewDisjunctionQuery(nil)
	for _, w := range words {
		term := query.NewTermQuery(w)
		term.SetField(textField)
		text.AddQuery(term)
	}
	request := bleve.NewSearchRequest(text)
	// bleve counts a word once in each of its segments, so its own figures depend on its updates.
	request.PreSearchData = map[string]any{search.BM25PreSearchDataKey: &search.BM25Stats{
		DocCount: float64(s.items), FieldCardinality: map[string]int{textField: len(s.docFreq)},
	}}
	return request
}

// search asks bleve. Its index may be replaced meanwhile.
func (x *index) search(ctx context.Context, request *bleve.SearchRequest) (*bleve.SearchResult, error) {
	for {
		words := x.words.Load()
		found, err := words.SearchInContext(ctx, request)
		switch {
		case !errors.Is(err, bleve.ErrorIndexClosed):
			return found, err
		case words == x.words.Load():
			return nil, errClosed
		}
	}
}

// round drops the digits of a score that depend on the order of a sum.
func round(score float64) float64 { return float64(float32(score)) }

// sorted returns the best hits in order.
func sorted(hits []Hit, limit int) []Hit {
	slices.SortFunc(hits, func(a, b Hit) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(docID(a.Item), docID(b.Item)))
	})
	return hits[:min(len(hits), limit)]
}
