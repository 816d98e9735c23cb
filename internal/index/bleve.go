package index

import (
	"strings"

	"github.com/blevesearch/bleve/v2"
	"github.com/blevesearch/bleve/v2/analysis/analyzer/custom"
	"github.com/blevesearch/bleve/v2/analysis/tokenizer/whitespace"
	"github.com/blevesearch/bleve/v2/index/scorch"
	"github.com/blevesearch/bleve/v2/mapping"
)

// textField is the one field of an item in bleve, for all words, since bleve does not sum the
// frequencies of several fields before it saturates them.
const textField = "text"

// repeats says how often a word of a field is repeated in the text, which gives the field its weight.
var repeats = [NumFields]int{
	NameField:        6,
	DescriptionField: 1,
	ParameterField:   1,
	ValueField:       1,
	ServerField:      6,
}

// repeated returns how often the text of an item has a word with the counts.
func repeated(counts [NumFields]uint8) (n int) {
	for f, count := range counts {
		n += repeats[f] * int(count)
	}
	return n
}

// An inverted is bleve's index of words in memory.
type inverted struct{ bleve.Index }

func newInverted() (*inverted, error) {
	m := bleve.NewIndexMapping()
	m.ScoringModel = "bm25" // the default is TF-IDF
	const words = "words"
	if err := m.AddCustomAnalyzer(words, map[string]any{"type": custom.Name, "tokenizer": whitespace.Name}); err != nil {
		return nil, err
	}
	m.DefaultMapping = bleve.NewDocumentStaticMapping()
	m.DefaultMapping.AddSubDocumentMapping("_all", bleve.NewDocumentDisabledMapping())
	m.DefaultMapping.AddFieldMappingsAt(textField, &mapping.FieldMapping{Type: "text", Analyzer: words, Index: true})
	b, err := bleve.NewUsing("", m, scorch.Name, scorch.Name, nil) // no name: in memory
	if err != nil {
		return nil, err
	}
	return &inverted{b}, nil
}

// write replaces the documents of the items with the IDs. An item without one is taken out.
func (x *inverted) write(ids []string, docs map[string]*Document) error {
	batch := x.NewBatch()
	for _, id := range ids {
		if d := docs[id]; d == nil {
			batch.Delete(id)
		} else if err := batch.Index(id, d.fields()); err != nil {
			return err
		}
	}
	return x.Batch(batch)
}

// fields returns the item as bleve wants it.
func (d *Document) fields() map[string]any {
	var text strings.Builder
	for i := range d.Terms {
		for range repeated(d.Terms[i].Count) {
			text.WriteString(d.Terms[i].Word)
			text.WriteByte(' ')
		}
	}
	return map[string]any{textField: text.String()}
}
