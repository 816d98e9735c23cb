package index

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	bleveindex "github.com/blevesearch/bleve_index_api"

	"github.com/mcp-metarouter/metarouter/registry"
)

// BM25's parameters. They are chosen for the square root of the term frequency and for
// bleve's average length, which is far below the mean.
const (
	bm25K1 = 5
	bm25B  = 0.75
)

// A tally is what a search knows of one item.
type tally struct {
	score float64
	tags  int32 // of the query, that it has
	words int16 // of the query, that it has
	here  bool  // whether it is of a server of the query
}

// A scan reads bleve's lists of the items that have a word, one after the other, and keeps
// the tally of each item. bleve's own search reads all lists at once, in the order of the
// items, which takes more than twice as long.
type scan struct {
	reader   bleveindex.IndexReader
	items    float64 // how many there are
	length   float64 // average, of their text
	tallies  []tally // by bleve's numbers of the items
	postings bleveindex.TermFieldDoc
}

// search returns the best of the items in c that have any of the words: by BM25, times the
// share of the words that an item has.
func (x *index) search(ctx context.Context, c *Collection, words []weightedWord, q Query) ([]Hit, error) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if x.closed {
		return nil, errClosed
	}
	hits, err := x.scan(ctx, c, words, q)
	if err != nil {
		return nil, fmt.Errorf("search the index: %w", err)
	}
	return hits, nil
}

func (x *index) scan(ctx context.Context, c *Collection, words []weightedWord, q Query) ([]Hit, error) {
	advanced, err := x.live.Advanced()
	if err != nil {
		return nil, err
	}
	reader, err := advanced.Reader()
	if err != nil {
		return nil, err
	}
	defer func() { _ = reader.Close() }()
	s := &scan{reader: reader}
	if err := s.measure(); err != nil {
		return nil, err
	}
	used, ok := x.tallies.Get().(*[]tally)
	if !ok {
		used = new([]tally)
	}
	s.tallies = *used
	defer func() {
		*used = s.tallies
		clear(*used)
		x.tallies.Put(used)
	}()
	for _, w := range words {
		if err := s.word(ctx, w); err != nil {
			return nil, err
		}
	}
	least, err := s.filter(ctx, q)
	if err != nil {
		return nil, err
	}
	return s.best(c, q, len(words), least)
}

// measure reads how many items there are, and how long.
func (s *scan) measure() error {
	count, err := s.reader.DocCount()
	if err != nil {
		return err
	}
	words, err := s.reader.(bleveindex.BM25Reader).FieldCardinality(textField)
	if err != nil {
		return err
	}
	s.items = float64(count)
	s.length = math.Ceil(float64(words) / s.items)
	return nil
}

// word adds what a word brings to the items that have it.
func (s *scan) word(ctx context.Context, w weightedWord) error {
	idf := 0.0
	return s.each(ctx, textField, w.word, func(items float64) {
		idf = math.Log(1 + (s.items-items+0.5)/(items+0.5))
	}, func(t *tally, p *bleveindex.TermFieldDoc) {
		t.score += bm25(w.weight, idf, float64(p.Freq), p.Norm, s.length)
		t.words++
	})
}

// bm25 returns what a word brings that an item has freq times. The norm is 1/√ of the item's
// length.
func bm25(weight, idf, freq, norm, meanLength float64) float64 {
	tf := math.Sqrt(freq)
	long := float64(bm25B/(norm*norm)) / meanLength
	return float64(weight * idf * idf * tf / (tf + float64(bm25K1*(1-bm25B+long)))) // the conversions keep compilers from fusing
}

// filter tallies the servers and capabilities of a query. It returns how many of the
// capabilities an item must have.
func (s *scan) filter(ctx context.Context, q Query) (least int32, err error) {
	for _, server := range q.Servers {
		err := s.each(ctx, serverField, server, nil, func(t *tally, _ *bleveindex.TermFieldDoc) { t.here = true })
		if err != nil {
			return 0, err
		}
	}
	tags := registry.Tags(q.Capabilities)
	for _, tag := range tags {
		err := s.each(ctx, capabilityField, tag, nil, func(t *tally, _ *bleveindex.TermFieldDoc) { t.tags++ })
		if err != nil {
			return 0, err
		}
	}
	wanted := len(tags)
	if q.AtLeast > 0 {
		wanted = min(wanted, q.AtLeast)
	}
	return int32(wanted), nil
}

// each calls tell for each item that has the term in the field; before, if it is not nil,
// it calls begin with how many there are.
func (s *scan) each(ctx context.Context, field, term string, begin func(items float64), tell func(*tally, *bleveindex.TermFieldDoc)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	list, err := s.reader.TermFieldReader(ctx, []byte(term), field, begin != nil, begin != nil, false)
	if err != nil {
		return err
	}
	defer func() { _ = list.Close() }()
	if begin != nil {
		begin(float64(list.Count()))
	}
	for {
		p, err := list.Next(s.postings.Reset())
		if err != nil || p == nil {
			return err
		}
		n := int(p.ID.Value())
		if n >= len(s.tallies) {
			s.tallies = append(s.tallies, make([]tally, max(n+1, int(s.items))-len(s.tallies))...)
		}
		tell(&s.tallies[n], p)
	}
}

// best returns the best of the items that have a word of the query and pass its filter.
func (s *scan) best(c *Collection, q Query, words int, tags int32) ([]Hit, error) {
	within, err := s.within(c, q.Within)
	if err != nil {
		return nil, err
	}
	var most greatest // of the scores
	least := 0.0      // of most, if there are enough
	for i := range s.tallies {
		t := &s.tallies[i]
		t.score *= float64(t.words) / float64(words)
		if len(q.Servers) > 0 && !t.here || t.tags < tags {
			t.score = 0
		}
		if t.score > least && within(i) {
			least = most.add(t.score, q.Limit)
		}
	}
	hits := make([]Hit, 0, len(most))
	var number bleveindex.IndexInternalID
	for i, t := range s.tallies {
		if t.score < least || t.score == 0 || !within(i) {
			continue
		}
		number = bleveindex.NewIndexInternalID(number, uint64(i))
		id, err := s.reader.ExternalID(number)
		if err != nil {
			return nil, err
		}
		if d, ok := c.docs[id]; ok { // else it is newer than c
			hits = append(hits, Hit{Document: d, Score: t.score})
		}
	}
	return sorted(hits, q.Limit), nil
}

// sorted returns the best hits in order.
func sorted(hits []Hit, limit int) []Hit {
	slices.SortFunc(hits, func(a, b Hit) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(docID(a.Item), docID(b.Item)))
	})
	return hits[:min(len(hits), limit)]
}

// within returns a function that reports whether the item with bleve's number i is of a subset of
// the collection.
func (s *scan) within(c *Collection, subset Subset) (func(i int) bool, error) {
	if subset.set == nil {
		return func(int) bool { return true }, nil
	}
	numbers, err := c.filters.numbersOf(c, s.reader)
	if err != nil {
		return nil, err
	}
	return func(i int) bool { return i < len(numbers) && numbers[i] >= 0 && subset.set.has(int(numbers[i])) }, nil
}

// greatest is a heap of the greatest of some scores, the least of them first.
type greatest []float64

// add adds a score that is greater than the least of limit scores. It returns the least of
// them then, or 0 if there are fewer.
func (g *greatest) add(score float64, limit int) float64 {
	h := *g
	if len(h) < limit {
		h = append(h, score)
		if *g = h; len(h) < limit {
			return 0
		}
		slices.Sort(h) // sorted is a heap
		return h[0]
	}
	i := 0
	for child := 1; child < len(h); child = 2*i + 1 {
		if child+1 < len(h) && h[child+1] < h[child] {
			child++
		}
		if h[child] >= score {
			break
		}
		h[i] = h[child]
		i = child
	}
	h[i] = score
	return h[0]
}
