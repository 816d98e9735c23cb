package index

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/blevesearch/bleve/v2"
	"github.com/blevesearch/bleve/v2/analysis/analyzer/custom"
	"github.com/blevesearch/bleve/v2/analysis/tokenizer/whitespace"
	"github.com/blevesearch/bleve/v2/index/scorch"
	"github.com/blevesearch/bleve/v2/mapping"
	"github.com/blevesearch/bleve/v2/search"
	"github.com/blevesearch/bleve/v2/search/query"
	bleveindex "github.com/blevesearch/bleve_index_api"

	"github.com/mcp-metarouter/metarouter/registry"
)

// A search finds what bleve's own search finds in an index of the same batches, and its scores are
// in proportion to bleve's.
func TestSearchIsThatOfBleve(t *testing.T) {
	defer func(k1, b float64) { search.BM25_k1, search.BM25_b = k1, b }(search.BM25_k1, search.BM25_b)
	search.BM25_k1, search.BM25_b = bm25K1, bm25B
	r, theirs := open(t), openBleve(t)
	for server, tools := range catalog(400) {
		replace(t, r, server, tools...)
	}
	writeBleve(t, theirs, tools(t, r), &Collection{})
	before := tools(t, r)
	replace(t, r, "server3", tool("server3", "only", "what was here before is gone, wa1 wb2"))
	writeBleve(t, theirs, tools(t, r), before)
	for _, one := range r.Snapshot().Tools()[:20] {
		q := Query{Text: one.Description, Limit: 500}
		got, err := searchTools(r, t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		var terms []query.Query
		for _, w := range tools(t, r).words(q) {
			term := query.NewTermQuery(w.word)
			term.SetField(textField)
			term.SetBoost(w.weight)
			terms = append(terms, term)
		}
		result, err := theirs.Search(bleve.NewSearchRequestOptions(query.NewDisjunctionQuery(terms), q.Limit, 0, false))
		if err != nil {
			t.Fatal(err)
		}
		if len(got) == 0 || len(got) != len(result.Hits) {
			t.Fatalf("%q: %d hits, and bleve's are %d", q.Text, len(got), len(result.Hits))
		}
		scores := make(map[string]float64)
		for _, hit := range result.Hits {
			scores[hit.ID] = hit.Score
		}
		factor := scores[got[0].Tool.ID] / got[0].Score
		for _, hit := range got {
			if want := scores[hit.Tool.ID]; math.Abs(hit.Score*factor/want-1) > 1e-9 {
				t.Errorf("%q: %s scores %g, by bleve %g", q.Text, hit.Tool.ID, hit.Score*factor, want)
			}
		}
	}
}

func tools(t *testing.T, r *searchable) *Collection {
	t.Helper()
	c, err := r.Tools(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// openBleve returns an index of bleve in memory, scored by BM25; its default is TF-IDF.
func openBleve(t *testing.T) bleve.Index {
	t.Helper()
	m := bleve.NewIndexMapping()
	m.ScoringModel = bleveindex.BM25Scoring
	if err := m.AddCustomAnalyzer("words", map[string]any{"type": custom.Name, "tokenizer": whitespace.Name}); err != nil {
		t.Fatal(err)
	}
	text := mapping.NewTextFieldMapping()
	text.Analyzer, text.Store, text.IncludeTermVectors, text.DocValues = "words", false, false, false
	m.DefaultMapping = bleve.NewDocumentStaticMapping()
	m.DefaultMapping.AddFieldMappingsAt(textField, text)
	x, err := bleve.NewUsing("", m, scorch.Name, scorch.Name, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := x.Close(); err != nil {
			t.Error(err)
		}
	})
	return x
}

// writeBleve writes into bleve, as one batch, what the collection has and an earlier one had not, and
// removes what the collection lacks.
func writeBleve(t *testing.T, x bleve.Index, c, earlier *Collection) {
	t.Helper()
	batch := x.NewBatch()
	for id := range earlier.docs {
		if _, ok := c.docs[id]; !ok {
			batch.Delete(id)
		}
	}
	for id, d := range c.docs {
		if earlier.docs[id] == d {
			continue
		}
		var text strings.Builder
		for _, term := range d.Terms {
			text.WriteString(strings.Repeat(term.Word+" ", term.repeated()))
		}
		if err := batch.Index(id, map[string]any{textField: text.String()}); err != nil {
			t.Fatal(err)
		}
	}
	if err := x.Batch(batch); err != nil {
		t.Fatal(err)
	}
}

// A limit and filters leave the rest of what is found as it is.
func TestSearchIsLimited(t *testing.T) {
	r := open(t)
	for server, tools := range catalog(200) {
		for i := range tools {
			tools[i].Capabilities = registry.Tags([]string{"web", fmt.Sprintf("third%d", i%3)})
		}
		replace(t, r, server, tools...)
	}
	q := Query{Text: r.Snapshot().Tools()[7].Description, Limit: 1000}
	all := hits(t, r, q)
	for limit := 1; limit < 12; limit++ {
		q.Limit = limit
		if got := hits(t, r, q); !slices.Equal(got, all[:limit]) {
			t.Errorf("the first %d are %q, want %q", limit, got, all[:limit])
		}
	}
	q.Servers, q.Capabilities, q.AtLeast, q.Limit = []string{"server1", "server4"}, []string{"web", "third1", "none"}, 2, 2
	c, err := r.Tools(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, id := range all {
		tool, _ := r.Snapshot().Tool(id)
		if d, ok := c.Document(registry.Item{Tool: tool}); ok && q.Admits(d) {
			want = append(want, id)
		}
	}
	if got := hits(t, r, q); len(want) < 3 || !slices.Equal(got, want[:2]) {
		t.Errorf("of two servers with two capabilities there are %q, want %q", got, want)
	}
}
