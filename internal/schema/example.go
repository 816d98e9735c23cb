package schema

import (
	"cmp"
	"encoding/json"
	"math"
	"slices"
	"strings"

	"github.com/mcp-metarouter/metarouter/internal/lazy"
	"github.com/mcp-metarouter/metarouter/internal/wire"
)

// ExampleArguments returns the members of args, a JSON object or nil, that the schema of an object takes, and
// a value for each missing one that it requires. A value is one that the schema names (const,
// examples, default, enum), that its description quotes (such as "mi"), or a plain one of the right type.
// It stops after 200 values, and earlier in a very large schema.
func ExampleArguments(schema, args json.RawMessage) json.RawMessage {
	if !wire.IsObject(args) {
		args = json.RawMessage("{}")
	}
	takes := ParametersOf(schema)
	for name := range wire.All(args) {
		if !takes.Open && !slices.Contains(takes.Names, name) {
			args = wire.DeleteMember(args, name)
		}
	}
	s := sampler{root: schema, left: maxExampleValues, read: maxRead}
	properties := wire.Member(schema, "properties")
	for _, name := range takes.Required {
		if s.left <= 0 || s.read <= 0 {
			break
		}
		if len(name) <= maxValue && wire.Member(args, name) == nil {
			s.read -= len(properties)
			args = wire.SetMember(args, name, s.value(name, wire.Member(properties, name), 0))
		}
	}
	return args
}

const (
	maxExampleValues = 200
	maxExampleDepth  = 8
	maxRead          = 4 << 20 // bytes of schemas, each time that they are read for a value
	maxValue         = 1000    // bytes of a value, or a name, that the schema has
	maxText          = 1000    // of a "minLength" that is followed
)

// A sampler makes values that fit schemas.
type sampler struct {
	root json.RawMessage // the target of "$ref"
	left int             // values that may still be made
	read int             // bytes of schemas that may still be read for them
}

// value returns a value for the property or item of that name.
func (s *sampler) value(name string, schema json.RawMessage, depth int) json.RawMessage {
	s.left--
	if s.read -= len(schema); s.left < 0 || s.read < 0 || depth > maxExampleDepth {
		return json.RawMessage("null")
	}
	if ref, ok := wire.String(wire.Member(schema, "$ref")); ok {
		return s.value(name, Target(s.root, ref, &s.read), depth+1)
	}
	if named := namedValue(schema); named != nil {
		return named
	}
	for _, key := range []string{"anyOf", "oneOf"} {
		if choice := firstWithValue(wire.Member(schema, key)); choice != nil {
			return s.value(name, choice, depth+1)
		}
	}
	if all := firstWithValue(wire.Member(schema, "allOf")); all != nil && wire.Member(schema, "type") == nil {
		return s.value(name, all, depth+1)
	}
	switch exampleType(schema) {
	case "object":
		return s.object(schema, depth)
	case "array":
		return s.array(name, schema, depth)
	case "boolean":
		return json.RawMessage("true")
	case "null":
		return json.RawMessage("null")
	case "integer", "number":
		return number(schema)
	}
	return wire.Marshal(textOf(name, schema))
}

// quotedExample matches a short text that a description quotes as an example.
var quotedExample = lazy.Regexp("(?i)\\b(?:such as|e\\.g\\.,?|for example,?|example:) (?:\"([^\"\\pC]{1,40})\"|'([^'\\pC]{1,40})'|`([^`\\pC]{1,40})`)")

// describedText returns the text that the description of a schema quotes as an example; "" if
// there is none.
func describedText(schema json.RawMessage) string {
	description, _ := wire.String(wire.Member(schema, "description"))
	found := quotedExample().FindStringSubmatch(description[:min(len(description), maxValue)])
	return strings.Join(found[min(len(found), 1):], "")
}

// Target returns the part of a schema to which a reference such as "#/$defs/path" leads; nil if it leads elsewhere, or once
// left, the bytes that may still be read, is used up.
func Target(schema json.RawMessage, ref string, left *int) json.RawMessage {
	steps := strings.Split(ref, "/")
	if steps[0] != "#" {
		return nil
	}
	for _, step := range steps[1:] {
		if *left -= len(schema); schema == nil || *left < 0 {
			return nil
		}
		schema = wire.Member(schema, strings.NewReplacer("~1", "/", "~0", "~").Replace(step))
	}
	return schema
}

// namedValue returns a value that the schema itself names; nil without one.
func namedValue(schema json.RawMessage) json.RawMessage {
	usable := func(v json.RawMessage) bool { return v != nil && len(v) <= maxValue && string(v) != "null" }
	for _, key := range []string{"const", "examples", "example", "default", "enum"} {
		v := json.RawMessage(wire.Member(schema, key))
		if key == "examples" || key == "enum" {
			v = firstElement(v)
		}
		if usable(v) {
			return v
		}
	}
	return nil
}

// firstElement returns the first element of a JSON array; nil if that is empty.
func firstElement(array json.RawMessage) json.RawMessage {
	for v := range wire.Values(array) {
		return v
	}
	return nil
}

// firstWithValue returns the first of several schemas that allows more than null.
func firstWithValue(schemas json.RawMessage) json.RawMessage {
	for v := range wire.Values(schemas) {
		if exampleType(v) != "null" {
			return v
		}
	}
	return nil
}

// exampleType returns the first type but null that the schema allows, "" if it does not say.
func exampleType(schema json.RawMessage) string {
	raw := wire.Member(schema, "type")
	if name, ok := wire.String(raw); ok {
		return name
	}
	var names []string
	_ = json.Unmarshal(raw, &names)
	for _, name := range names {
		if name != "null" {
			return name
		}
	}
	switch {
	case wire.Member(schema, "properties") != nil:
		return "object"
	case wire.Member(schema, "items") != nil:
		return "array"
	}
	return ""
}

// object returns an object with the required members.
func (s *sampler) object(schema json.RawMessage, depth int) json.RawMessage {
	object, properties := json.RawMessage("{}"), wire.Member(schema, "properties")
	for _, name := range Required(properties, wire.Member(schema, "required")) {
		if s.left <= 0 || s.read <= 0 {
			break
		}
		s.read -= len(schema)
		object = wire.SetMember(object, name, s.value(name, wire.Member(properties, name), depth+1))
	}
	return object
}

// array returns an array of one item, or of as many as the schema asks for.
func (s *sampler) array(name string, schema json.RawMessage, depth int) json.RawMessage {
	least := 1.0
	_ = json.Unmarshal(wire.Member(schema, "minItems"), &least)
	items := []json.RawMessage{}
	for len(items) < int(min(max(least, 1), 10)) {
		items = append(items, s.value(name, wire.Member(schema, "items"), depth+1))
	}
	return wire.Marshal(items)
}

// number returns a small number that the schema allows.
func number(schema json.RawMessage) json.RawMessage {
	limit := func(key string, otherwise float64) float64 {
		_ = json.Unmarshal(wire.Member(schema, key), &otherwise)
		return otherwise
	}
	least := max(limit("minimum", math.Inf(-1)), limit("exclusiveMinimum", math.Inf(-1))+1)
	most := min(limit("maximum", math.Inf(1)), limit("exclusiveMaximum", math.Inf(1))-1)
	x := min(max(1, least), most)
	if step := limit("multipleOf", 0); step > 0 {
		x = math.Ceil(x/step) * step
	}
	if math.IsInf(x, 0) || math.IsNaN(x) {
		x = 1
	}
	return wire.Marshal(x)
}

// formats are texts in the formats that schemas name, and for usual names.
var formats = map[string]string{
	"date": "2026-01-31", "date-time": "2026-01-31T09:30:00Z", "time": "09:30:00Z", "duration": "PT1H", "email": "name@example.com",
	"uri": "https://example.com", "url": "https://example.com", "uri-reference": "https://example.com", "hostname": "example.com",
	"path": "some/path", "ipv4": "192.0.2.1", "ipv6": "2001:db8::1", "uuid": "123e4567-e89b-12d3-a456-426614174000",
}

// textOf returns a text in the format of the schema, or for the name.
func textOf(name string, schema json.RawMessage) string {
	format, _ := wire.String(wire.Member(schema, "format"))
	text := cmp.Or(formats[format], describedText(schema), formats[strings.ToLower(name)], "text")
	least, most := 0, maxText
	_ = json.Unmarshal(wire.Member(schema, "minLength"), &least)
	_ = json.Unmarshal(wire.Member(schema, "maxLength"), &most)
	if missing := min(least, maxText) - len(text); missing > 0 {
		text += strings.Repeat("x", missing)
	}
	return text[:min(len(text), max(most, 0))]
}
