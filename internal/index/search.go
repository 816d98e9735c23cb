package index

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	lists "github.com/blevesearch/scorch_segment_api/v2"

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

// A scan reads the lists of the items that have a word, one after the other, and keeps the tally of
// each item. bleve's own search reads all lists at once, in the order of the items, which takes more
// than twice as long.
type scan struct {
	collection *Collection
	segments   []segmentScan
	items      float64 // how many there are
	length     float64 // average, of their text
	tallies    []tally // by the number of the item, those of the first segment first
}

// A segmentScan reads the lists of a segment. Its memory is used for one list after the other.
type segmentScan struct {
	segment
	list     lists.PostingsList
	postings lists.PostingsIterator
}

// search returns the best of the items that have any of the words: by BM25, times the share of the
// words that an item has.
func (c *Collection) search(ctx context.Context, words []weightedWord, q Query) ([]Hit, error) {
	if c.index.closed.Load() {
		return nil, errClosed
	}
	s := c.newScan()
	used, ok := c.index.tallies.Get().(*[]tally)
	if !ok {
		used = new([]tally)
	}
	s.tallies = slices.Grow((*used)[:0], len(c.numbers()))[:len(c.numbers())]
	defer func() {
		clear(s.tallies)
		*used = s.tallies
		c.index.tallies.Put(used)
	}()
	hits, err := s.run(ctx, words, q)
	if err != nil {
		return nil, fmt.Errorf("search the index: %w", err)
	}
	return hits, nil
}

func (c *Collection) newScan() *scan {
	s := &scan{collection: c, segments: make([]segmentScan, len(c.segments)), items: float64(len(c.all))}
	words := 0
	for i := range c.segments {
		s.segments[i].segment = c.segments[i]
		words += c.segments[i].words
	}
	s.length = math.Ceil(float64(words) / s.items)
	return s
}

func (s *scan) run(ctx context.Context, words []weightedWord, q Query) ([]Hit, error) {
	for _, w := range words {
		if err := s.word(ctx, w); err != nil {
			return nil, err
		}
	}
	least, err := s.filter(ctx, q)
	if err != nil {
		return nil, err
	}
	return s.best(q, len(words), least), nil
}

// word adds what a word brings to the items that have it.
func (s *scan) word(ctx context.Context, w weightedWord) error {
	idf := 0.0
	return s.each(ctx, textField, w.word, func(items float64) {
		idf = math.Log(1 + (s.items-items+0.5)/(items+0.5))
	}, func(t *tally, p lists.Posting) {
		t.score += bm25(w.weight, idf, float64(p.Frequency()), p.Norm(), s.length)
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
		err := s.each(ctx, serverField, server, nil, func(t *tally, _ lists.Posting) { t.here = true })
		if err != nil {
			return 0, err
		}
	}
	tags := registry.Tags(q.Capabilities)
	for _, tag := range tags {
		err := s.each(ctx, capabilityField, tag, nil, func(t *tally, _ lists.Posting) { t.tags++ })
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

// each calls tell for each item that has the term in the field; before, it calls begin, if that is
// not nil, with how many there are.
func (s *scan) each(ctx context.Context, field, term string, begin func(items float64), tell func(*tally, lists.Posting)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	items := uint64(0)
	for i := range s.segments {
		if err := s.segments[i].open(field, term); err != nil {
			return err
		}
		items += s.segments[i].list.Count()
	}
	if begin != nil {
		begin(float64(items))
	}
	tallies := s.tallies
	for i := range s.segments {
		if err := s.segments[i].each(begin != nil, func(p lists.Posting) { tell(&tallies[p.Number()], p) }); err != nil {
			return err
		}
		tallies = tallies[len(s.segments[i].ids):]
	}
	return nil
}

// open opens the list of the items that have the term in the field.
func (s *segmentScan) open(field, term string) error {
	dictionary, err := s.lists.Dictionary(field)
	if err != nil {
		return err
	}
	s.list, err = dictionary.PostingsList([]byte(term), s.deleted, s.list)
	return err
}

// each calls tell for each item of the list.
func (s *segmentScan) each(counted bool, tell func(lists.Posting)) error {
	s.postings = s.list.Iterator(counted, counted, false, s.postings)
	for {
		p, err := s.postings.Next()
		if err != nil || p == nil {
			return err
		}
		tell(p)
	}
}

// best returns the best of the items that have a word of the query and pass its filter.
func (s *scan) best(q Query, words int, tags int32) []Hit {
	numbers := s.collection.numbers()
	var most greatest // of the scores
	least := 0.0      // of most, if there are enough
	for i := range s.tallies {
		t := &s.tallies[i]
		t.score *= float64(t.words) / float64(words)
		if len(q.Servers) > 0 && !t.here || t.tags < tags || t.score > 0 && q.Within.set != nil && !q.Within.set.has(int(numbers[i])) {
			t.score = 0
		}
		if t.score > least {
			least = most.add(t.score, q.Limit)
		}
	}
	hits := make([]Hit, 0, len(most))
	var equal []int32 // the indexes in all of the items with the least score, of which there may be many
	for i := range s.tallies {
		switch t := &s.tallies[i]; {
		case t.score > least:
			hits = append(hits, Hit{Document: s.collection.all[numbers[i]], Score: t.score})
		case t.score == least && least > 0:
			equal = append(equal, numbers[i])
		}
	}
	slices.Sort(equal)
	for _, n := range equal[:min(len(equal), q.Limit-len(hits))] {
		hits = append(hits, Hit{Document: s.collection.all[n], Score: least})
	}
	return sorted(hits, q.Limit)
}

// sorted returns the best hits in order.
func sorted(hits []Hit, limit int) []Hit {
	slices.SortFunc(hits, func(a, b Hit) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(docID(a.Item), docID(b.Item)))
	})
	return hits[:min(len(hits), limit)]
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
