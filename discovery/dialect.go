package discovery

import (
	"bytes"
	"errors"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/tailscale/hujson"

	validation "github.com/mcp-metarouter/metarouter/internal/schema"
)

// isForm reports whether JSON Schema 2020-12 takes the value for the keyword. Clients and APIs of models refuse a
// schema, or a whole list, for others.
func isForm(keyword string, v *hujson.Value) bool {
	k := v.Value.Kind()
	switch keyword {
	case "title", "description", "$comment", "format", "contentEncoding", "contentMediaType", "$ref", "$dynamicRef", "$schema":
		return k == '"'
	case "$anchor", "$dynamicAnchor":
		s, ok := text(v)
		return ok && anchor.MatchString(s)
	case "maximum", "minimum", "exclusiveMaximum", "exclusiveMinimum":
		return k == '0'
	case "multipleOf":
		return k == '0' && number(v) > 0
	case "maxLength", "minLength", "maxItems", "minItems", "maxProperties", "minProperties", "maxContains", "minContains":
		n := number(v)
		return k == '0' && n >= 0 && n == float64(int64(n))
	case "uniqueItems", "deprecated", "readOnly", "writeOnly":
		return k == 't' || k == 'f'
	case "required":
		names, ok := texts(v)
		slices.Sort(names)
		return ok && len(slices.Compact(names)) == len(v.Value.(*hujson.Array).Elements)
	case "examples":
		return k == '['
	case "enum":
		values, ok := v.Value.(*hujson.Array)
		return ok && len(values.Elements) > 0
	case "items", "contains", "additionalProperties", "propertyNames", "unevaluatedItems", "unevaluatedProperties", "not", "if", "then", "else", "contentSchema":
		return isSchema(v)
	case "allOf", "anyOf", "oneOf", "prefixItems":
		parts, ok := v.Value.(*hujson.Array)
		return ok && len(parts.Elements) > 0 && !slices.ContainsFunc(parts.Elements, func(v hujson.Value) bool { return !isSchema(&v) })
	case "properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies", "dependentRequired":
		return k == '{'
	case "id", "$vocabulary", "$recursiveRef", "$recursiveAnchor", "additionalItems": // of other drafts; Ajv ends at an id
		return false
	}
	return true
}

var anchor = regexp.MustCompile(`^[A-Za-z_][-A-Za-z0-9._]*$`)

func isSchema(v *hujson.Value) bool {
	k := v.Value.Kind()
	return k == '{' || k == 't' || k == 'f'
}

// number returns a number, 0 if it is too large or v is none.
func number(v *hujson.Value) float64 {
	n, _ := strconv.ParseFloat(strings.TrimSpace(v.String()), 64)
	return n
}

// dialect makes the keywords of a schema keywords of JSON Schema 2020-12, and leaves out those with another form. It
// reports whether the schema may allow more than before.
func (c *cleaner) dialect(o object) (wider bool) {
	wider = c.dangling[o.Object]
	for _, end := range []string{"Minimum", "Maximum"} { // of draft 4
		if v := o.get("exclusive" + end); v != nil && v.Value.Kind() == 't' && o.get(strings.ToLower(end)) != nil {
			v.Value = o.get(strings.ToLower(end)).Value
			o.remove(strings.ToLower(end))
			c.note("exclusive%s was a boolean, as in draft 4", end)
		}
	}
	rename := func(old, keyword string) {
		if v := o.get(old); v != nil && o.get(keyword) == nil {
			o.put(keyword, v.Value)
			o.remove(old)
			c.note("%s became %s", old, keyword)
		}
	}
	if v := o.get("items"); v != nil && v.Value.Kind() == '[' {
		rename("items", "prefixItems")
		rename("additionalItems", "items")
	}
	c.ownRequired(o)
	for i := 0; i < len(o.Members); i++ {
		name, v := o.name(i), &o.Members[i].Value
		if parts, ok := v.Value.(*hujson.Array); ok && subschemas[name] != byName {
			wider = c.elements(name, parts) || wider
			if _, is := subschemas[name]; is && len(parts.Elements) == 0 {
				o.remove(name) // it says nothing
				c.note("%s was left out, since it has no schema", name)
				i--
				continue
			}
		}
		if nested := name == "$schema" && len(c.path) > 1; nested || !isForm(name, v) {
			c.note("%s %.80s was left out, since JSON Schema 2020-12 does not allow it there", name, strings.TrimSpace(v.String()))
			o.remove(name)
			wider = wider || !nested
			i--
			continue
		}
		if parts, ok := asObject(v); ok && (subschemas[name] == byName || name == "dependentRequired") {
			wider = c.parts(name, parts) || wider
		}
	}
	c.unsaid(o)
	return wider
}

// member returns an object with one member.
func member(name string, v hujson.ValueTrimmed) *hujson.Object {
	o := object{&hujson.Object{}}
	o.add(name, v)
	return o.Object
}

// unsaid leaves out keywords that mean nothing, and says what APIs of models want to read though it means the same.
func (c *cleaner) unsaid(o object) {
	idle := []string{"if"}
	if o.get("if") == nil {
		idle = []string{"then", "else"}
	} else if o.get("then") != nil || o.get("else") != nil {
		idle = nil
	}
	for _, keyword := range idle {
		if o.get(keyword) != nil {
			o.remove(keyword)
			c.note("%s was left out, since it says nothing", keyword)
		}
	}
	v := o.get("type")
	types, _ := texts(v)
	if one, _ := text(v); (one == "array" || slices.Contains(types, "array")) && o.get("items") == nil {
		o.put("items", &hujson.Object{}) // OpenAI's and Gemini's refuse a list without
		c.note("items were added to a list")
	}
}

// parts replaces what is no schema in an object of schemas, and what is no list of names in one of these.
func (c *cleaner) parts(keyword string, parts object) (wider bool) {
	for i := range parts.Members {
		v := &parts.Members[i].Value
		names, isNames := texts(v)
		switch takesNames := keyword == "dependencies" || keyword == "dependentRequired"; {
		case isSchema(v) && keyword != "dependentRequired", takesNames && isForm("required", v):
			continue
		case takesNames && isNames:
			slices.Sort(names)
			v.Value = array(slices.Compact(names))
		case takesNames:
			v.Value, wider = array(nil), true
		default:
			v.Value, wider = &hujson.Object{}, true
		}
		c.note("%s of %.80q had another form", keyword, parts.name(i))
	}
	return wider
}

// elements removes what is no schema from an array of schemas.
func (c *cleaner) elements(keyword string, parts *hujson.Array) (wider bool) {
	if !slices.Contains([]string{"allOf", "anyOf", "oneOf", "prefixItems"}, keyword) {
		return false
	}
	kept := parts.Elements[:0]
	for _, v := range parts.Elements {
		if !isSchema(&v) {
			wider = true
			c.note("%s has an element that is no schema", keyword)
			if keyword != "prefixItems" {
				continue
			}
			v.Value = &hujson.Object{}
		}
		kept = append(kept, v)
	}
	keepElements(parts, kept)
	return wider
}

// ownRequired moves "required": true of properties, as in draft 3, to the schema that has them.
func (c *cleaner) ownRequired(o object) {
	properties, ok := asObject(o.get("properties"))
	if !ok {
		return
	}
	names, _ := texts(o.get("required"))
	known := len(names)
	for i := range properties.Members {
		p, ok := asObject(&properties.Members[i].Value)
		if !ok {
			continue
		}
		v := p.get("required")
		if v == nil || v.Value.Kind() != 't' && v.Value.Kind() != 'f' {
			continue
		}
		if v.Value.Kind() == 't' {
			names = append(names, properties.name(i))
		}
		p.remove("required")
		c.note("required was a boolean, as in draft 3")
	}
	if len(names) > known {
		slices.Sort(names)
		o.put("required", array(slices.Compact(names)))
	}
}

// visit calls f with a schema and those within, and the JSON pointers to them, up to maxPointer.
func visit(o object, at string, f func(o object, at string)) {
	if len(at) > maxPointer {
		return
	}
	f(o, at)
	for i := range o.Members {
		name := o.name(i)
		kind, ok := subschemas[name]
		if !ok {
			continue
		}
		switch of := o.Members[i].Value.Value.(type) {
		case *hujson.Object:
			if kind != byName {
				visit(object{of}, at+"/"+name, f)
				continue
			}
			for j := range of.Members {
				if part, ok := asObject(&of.Members[j].Value); ok {
					visit(part, at+"/"+name+"/"+pointer.Replace(object{of}.name(j)), f)
				}
			}
		case *hujson.Array:
			for j := range of.Elements {
				if part, ok := asObject(&of.Elements[j]); ok {
					visit(part, at+"/"+name+"/"+strconv.Itoa(j), f)
				}
			}
		}
	}
}

// in2020 makes a schema one of JSON Schema 2020-12 that clients can compile, and removes regular expressions; see
// [cleaner]. Properties of an inputSchema get keys that APIs of models take. It returns the server's own by these, and
// reports whether it changed any, and whether the schema may allow more than before.
func in2020(r *repairs, schema object, where string) (own map[string]string, changed, wider bool) {
	c := cleaner{r: r, patterns: true, path: []string{where}, dangling: make(map[*hujson.Object]bool)}
	if where == "inputSchema" {
		c.keys, own = keysFor(schema)
		for _, key := range slices.Sorted(maps.Keys(c.keys)) {
			c.note("property %.80q is shown as %q, since APIs of models refuse its name", key, c.keys[key])
		}
	}
	c.references(schema)
	wider = c.clean(schema)
	if c.changed {
		c.references(schema) // some may lead to a part that was left out
	}
	changed = c.changed
	v := schema.get("$schema")
	if s, _ := text(v); v != nil && strings.TrimSuffix(s, "#") != dialect2020 {
		schema.remove("$schema")
		changed = changed || bytes.Contains(hujson.Value{Value: schema.Object}.Pack(), []byte(`"$ref"`)) // drafts differ in what stands beside it
	}
	return own, changed, wider
}

const dialect2020 = "https://json-schema.org/draft/2020-12/schema"

// compiles returns an error if clients that compile the schema would refuse the whole list for it.
func compiles(schema []byte) error {
	_, err := validation.Compile(schema)
	if errors.Is(err, validation.ErrCostly) {
		return nil
	}
	return err
}
