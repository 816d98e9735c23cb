package index

import (
	"cmp"
	"encoding/json"
	"hash/maphash"
	"maps"
	"math"
	"math/bits"
	"slices"
	"strings"

	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/registry"
)

// A Field is a part of an item in which words are found.
type Field int

const (
	NameField        Field = iota // the item's name
	DescriptionField              // its description; its title too, unless it is a tool
	ParameterField                // the names of its parameters, nested ones too, or its URI
	ValueField                    // the descriptions and enumerated values of its parameters
	ServerField                   // the name of its server, unless the item has the same name
	NumFields
)

// String returns the field's name.
func (f Field) String() string {
	return [NumFields]string{"name", "description", "parameters", "parameter descriptions", "server"}[f]
}

// A Document is an item as words. It is immutable.
type Document struct {
	registry.Item
	Terms []Term            // sorted by word, each once
	Len   [NumFields]uint16 // words in each field
	Text  string            // what the sentence encoder reads of it
	Same  uint64            // tools with the same name and input schema have the same; 0 unless it is a tool

	norm float32 // 1/√ of how many words bleve has of it
}

// A Term is a word of an item and how often it is in each field.
type Term struct {
	Word  string
	Count [NumFields]uint8 // 255 stands for that many or more
}

// Term returns the counts of a word, which are all zero if the item lacks it.
func (d *Document) Term(word string) (count [NumFields]uint8, ok bool) {
	i, ok := slices.BinarySearchFunc(d.Terms, word, func(t Term, word string) int {
		return strings.Compare(t.Word, word)
	})
	if !ok {
		return count, false
	}
	return d.Terms[i].Count, true
}

// maxFieldWords bounds the indexed words of one field: a schema may be a million
// bytes long, but it does not need them to be found.
const maxFieldWords = 1000

// seed is the seed of all hashes of this process.
var seed = maphash.MakeSeed()

// newDocument returns the item as words.
func newDocument(i registry.Item, stems Stemmer) *Document {
	d := &Document{Item: i, Text: sentence(i)}
	var schema any
	if i.Tool != nil {
		same := i.Tool.InputSchema
		if json.Unmarshal(same, &schema) == nil { // else it has no words for us
			same = wire.Marshal(schema) // whatever the order of members and the form of numbers
		}
		d.Same = maphash.String(seed, i.Tool.Name) ^ bits.RotateLeft64(maphash.Bytes(seed, same), 1)
	}
	counts := make(map[string]*[NumFields]uint8)
	count := func(f Field, word string) {
		times := counts[word]
		if times == nil {
			times = new([NumFields]uint8)
			counts[word] = times
		}
		if times[f] < math.MaxUint8 {
			times[f]++
		}
	}
	add := func(f Field, text string) {
		if f == DescriptionField {
			names := stems.Joined(text)
			for _, name := range names[:min(len(names), maxFieldWords)] {
				count(f, name)
			}
		}
		for _, word := range stems.Words(text) {
			if d.Len[f] == maxFieldWords {
				return
			}
			d.Len[f]++
			count(f, word)
		}
	}
	addWords(i, schema, add)
	d.Terms = make([]Term, 0, len(counts))
	length := 0
	for _, word := range slices.Sorted(maps.Keys(counts)) {
		t := Term{word, *counts[word]}
		d.Terms = append(d.Terms, t)
		length += repeated(t.Count)
	}
	d.norm = float32(1 / math.Sqrt(float64(length)))
	return d
}

// nearDescription is how many bytes of a tool's description say most about it; the words
// after these count as words of its parameters' descriptions.
const nearDescription = 300

// addWords adds the words of each field. Of a field that is too long the end is
// cut off, so they come in the same order always.
func addWords(i registry.Item, schema any, add func(Field, string)) {
	server, name, title, description := textsOf(i)
	add(NameField, name)
	if server != name {
		add(ServerField, server)
	}
	if i.Tool == nil {
		add(DescriptionField, title)
	} else if len(description) > nearDescription {
		at := nearDescription + strings.IndexByte(description[nearDescription:]+" ", ' ')
		add(ValueField, description[at:])
		description = description[:at]
	}
	add(DescriptionField, description)
	switch {
	case i.Tool != nil:
		addSchema(schema, 0, add)
	case i.Prompt != nil:
		for _, argument := range i.Prompt.Arguments() {
			add(ParameterField, argument.Name)
			add(ValueField, argument.Description)
		}
	default:
		add(ParameterField, cmp.Or(i.Resource, i.Template, i.Skill).URI)
	}
}

// maxSchemaDepth bounds how deep a schema is searched for parameters.
const maxSchemaDepth = 12

// addSchema adds the parameters that a JSON schema describes: their names, and
// their descriptions and enumerated strings. The keys are sorted,
// so that the same end is cut off each time.
func addSchema(schema any, depth int, add func(Field, string)) {
	object, ok := schema.(map[string]any)
	if !ok || depth > maxSchemaDepth {
		return
	}
	if text, ok := object["description"].(string); ok && depth > 0 {
		add(ValueField, text)
	}
	values, _ := object["enum"].([]any)
	for _, value := range values {
		if text, ok := value.(string); ok {
			add(ValueField, text)
		}
	}
	properties, _ := object["properties"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		add(ParameterField, name)
		addSchema(properties[name], depth+1, add)
	}
	addSchema(object["items"], depth+1, add)
	for _, key := range []string{"anyOf", "oneOf", "allOf"} {
		choices, _ := object[key].([]any)
		for _, choice := range choices {
			addSchema(choice, depth+1, add)
		}
	}
}
