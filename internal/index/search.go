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

	"github.com/mcp-metarouter/metarouter/internal/taglist"
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
	for request := c.request(words, q); ; size *= 8 {
		request.Size = size
		found, err := c.index.search(ctx, request)
		if err != nil {
			return nil, fmt.Errorf("search the index: %w", err)
		}
		hits := make([]Hit, 0, len(found.Hits))
		for _, f := range found.Hits {
			if d := c.docs[f.ID]; d != nil && q.Within.Has(d) { // nil: it is newer than the collection
				hits = append(hits, Hit{Document: d, Score: round(f.Score)})
			}
		}
		if len(found.Hits) < size || len(hits) >= q.Limit && round(found.Hits[size-1].Score) < hits[q.Limit-1].Score {
			return sorted(hits, q.Limit), nil
		}
	}
}

// request returns the query as bleve wants it.
func (s *statistics) request(words []string, q Query) *bleve.SearchRequest {
	text := query.NewBooleanQuery(nil, nil, nil)
	for _, w := range words {
		text.AddShould(term(textField, w))
	}
	var filters []query.Query
	if len(q.Servers) > 0 {
		filters = append(filters, terms(serverField, q.Servers))
	}
	if tags := taglist.Clean(q.Capabilities); len(tags) > 0 {
		of := terms(capabilityField, tags)
		of.SetMin(float64(q.least(len(tags))))
		filters = append(filters, of)
	}
	if len(filters) > 0 {
		text.AddFilter(query.NewConjunctionQuery(filters))
	}
	request := bleve.NewSearchRequest(text)
	// bleve counts a word once in each of its segments, so its own figures depend on its updates.
	// Fields of filters are not used, but must be there; "*" is a filter by several terms.
	request.PreSearchData = map[string]any{search.BM25PreSearchDataKey: &search.BM25Stats{
		DocCount:         float64(s.items),
		FieldCardinality: map[string]int{textField: len(s.docFreq), serverField: 1, capabilityField: 1, "*": 1},
	}}
	return request
}

func term(field, text string) *query.TermQuery {
	t := query.NewTermQuery(text)
	t.SetField(field)
	return t
}

// terms asks for any of the texts.
func terms(field string, texts []string) *query.DisjunctionQuery {
	all := query.NewDisjunctionQuery(nil)
	for _, text := range texts {
		all.AddQuery(term(field, text))
	}
	return all
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
