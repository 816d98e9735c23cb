package index

import (
	"encoding/json"
	"hash/maphash"
	"maps"
	"math"
	"math/bits"
	"slices"
	"strings"

	"github.com/mcp-metarouter/metarouter/internal/analysis"
	"github.com/mcp-metarouter/metarouter/internal/verbs"
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
	CapabilityField               // a tool's capability tags
	NumFields
)

// String returns the field's name.
func (f Field) String() string {
	return [NumFields]string{"name", "description", "parameters", "parameter descriptions", "server", "capabilities"}[f]
}

// A Document is an item as words. It is immutable.
type Document struct {
	registry.Item
	Terms []Term            // sorted by word, each once
	Len   [NumFields]uint16 // words in each field
	Verbs verbs.Set         // the actions of a tool
	Same  uint64            // tools with the same name and input schema have the same; 0 unless it is a tool

	// Plurals and Singulars have a bit for each word of the name that is a plural there, or a
	// singular. The first bit is for the first of Terms that the name has, and so on.
	Plurals, Singulars uint16

	// Takes are the types of values that a tool's parameters take, and Requires the types that
	// it cannot do without.
	Takes, Requires analysis.Types

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
func newDocument(i registry.Item, stems analysis.Stemmer) *Document {
	d := &Document{Item: i}
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
			for _, name := range stems.Joined(text) {
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
	d.Takes, d.Requires = addWords(i, schema, add)
	if i.Tool != nil {
		d.Verbs = verbs.Tool(i.Tool.Server, i.Tool.Name, i.Tool.Description, i.Tool.Reads())
	}
	d.Terms = make([]Term, 0, len(counts))
	length := 0
	for _, word := range slices.Sorted(maps.Keys(counts)) {
		t := Term{word, *counts[word]}
		d.Terms = append(d.Terms, t)
		length += repeated(t.Count)
	}
	d.norm = float32(1 / math.Sqrt(float64(length)))
	if i.Tool != nil {
		d.setNumbers(i.Tool.Name, stems)
	}
	return d
}

// addWords adds the words of each field. Of a field that is too long the end is
// cut off, so they come in the same order always. It returns the types of values that a
// tool takes and requires, by its schema.
func addWords(i registry.Item, schema any, add func(Field, string)) (taken, required analysis.Types) {
	switch {
	case i.Tool != nil:
		return addTool(i.Tool, schema, add)
	case i.Prompt != nil:
		p := i.Prompt
		addOther(add, p.Server, p.Name, p.Title, p.Description)
		for _, argument := range p.Arguments() {
			add(ParameterField, argument.Name)
			add(ValueField, argument.Description)
		}
	case i.Resource != nil:
		r := i.Resource
		addOther(add, r.Server, r.Name, r.Title, r.Description)
		add(ParameterField, r.URI)
	case i.Template != nil:
		t := i.Template
		addOther(add, t.Server, t.Name, t.Title, t.Description)
		add(ParameterField, t.URITemplate)
	}
	return 0, 0
}

// nearDescription is how many bytes of a tool's description say most about it; the words
// after these count as words of its parameters' descriptions.
const nearDescription = 300

func addTool(t *registry.NormalizedTool, schema any, add func(Field, string)) (taken, required analysis.Types) {
	add(NameField, t.Name)
	near, far := t.Description, ""
	if len(near) > nearDescription {
		at := nearDescription + strings.IndexByte(near[nearDescription:]+" ", ' ')
		near, far = near[:at], near[at:]
	}
	add(DescriptionField, near)
	add(ValueField, far)
	addSchema(schema, 0, add)
	taken, required = analysis.Takes(schema)
	addServer(add, t.Server, t.Name)
	for _, tag := range t.Capabilities {
		add(CapabilityField, tag)
	}
	return taken, required
}

func addOther(add func(Field, string), server, name, title, description string) {
	add(NameField, name)
	add(DescriptionField, title)
	add(DescriptionField, description)
	addServer(add, server, name)
}

func addServer(add func(Field, string), server, name string) {
	if server != name {
		add(ServerField, server)
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

// setNumbers sets Plurals and Singulars. Words of a name beyond the 16th are left out.
func (d *Document) setNumbers(name string, stems analysis.Stemmer) {
	numbers := stems.Numbers(name)
	k := 0
	for i := range d.Terms {
		if d.Terms[i].Count[NameField] == 0 {
			continue
		}
		if plural, known := numbers[d.Terms[i].Word]; known && k < 16 {
			if plural {
				d.Plurals |= 1 << k
			} else {
				d.Singulars |= 1 << k
			}
		}
		k++
	}
}
