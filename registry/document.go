package registry

import (
	"cmp"
	"encoding/json"
	"maps"
	"math"
	"slices"
)

// A Field is a part of a tool in which words are found.
type Field int

const (
	NameField        Field = iota // the tool's name
	DescriptionField              // its description
	ParameterField                // the names of its parameters, nested ones too
	ValueField                    // the descriptions and enumerated values of its parameters
	ServerField                   // the name of its server, unless the tool has the same name
	CapabilityField               // its capability tags
	NumFields
)

// A Document is a tool as words. It is immutable.
type Document struct {
	Tool  *NormalizedTool
	Terms []Term         // sorted by word, each once
	Len   [NumFields]int // words in each field
}

// A Term is a word of a tool and how often it is in each field.
type Term struct {
	Word  string
	Count [NumFields]uint8 // 255 stands for that many or more
}

// Term returns the counts of a word, which are all zero if the tool lacks it.
func (d *Document) Term(word string) (count [NumFields]uint8, ok bool) {
	i, ok := slices.BinarySearchFunc(d.Terms, word, func(t Term, word string) int {
		return cmp.Compare(t.Word, word)
	})
	if !ok {
		return count, false
	}
	return d.Terms[i].Count, true
}

// maxFieldWords bounds what is indexed of one field: a schema may be a million
// bytes long, but it does not need them to be found.
const maxFieldWords = 1000

func newDocument(t *NormalizedTool, stems stemmer) *Document {
	d := &Document{Tool: t}
	counts := make(map[string]*[NumFields]uint8)
	add := func(f Field, text string) {
		for _, word := range stems.words(text) {
			if d.Len[f] == maxFieldWords {
				return
			}
			d.Len[f]++
			count := counts[word]
			if count == nil {
				count = new([NumFields]uint8)
				counts[word] = count
			}
			if count[f] < math.MaxUint8 {
				count[f]++
			}
		}
	}
	add(NameField, t.Name)
	add(DescriptionField, t.Description)
	var schema any
	if json.Unmarshal(t.InputSchema, &schema) == nil { // else it has no words for us
		addSchema(schema, 0, add)
	}
	if t.Server != t.Name {
		add(ServerField, t.Server)
	}
	for _, tag := range t.Capabilities {
		add(CapabilityField, tag)
	}
	d.Terms = make([]Term, 0, len(counts))
	for _, word := range slices.Sorted(maps.Keys(counts)) {
		d.Terms = append(d.Terms, Term{word, *counts[word]})
	}
	return d
}

// maxSchemaDepth bounds how deep a schema is searched for parameters.
const maxSchemaDepth = 12

// addSchema adds the parameters that a JSON schema describes: their names, and
// their descriptions and enumerated strings. The order is that of sorted keys,
// so that what is cut off is always the same.
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
