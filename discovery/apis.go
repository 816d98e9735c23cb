package discovery

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/tailscale/hujson"
)

// flat returns the definition of a tool for clients that give it to APIs of models, which it changes; nil if the APIs take it as it is.
func flat(definition hujson.Value, tool object, description string) (packed json.RawMessage, err error) {
	schema := object{tool.get("inputSchema").Value.(*hujson.Object)}
	hint, flattened := flatten(schema)
	if flattened {
		if hint != "" {
			if description != "" {
				hint = description + "\n\n" + hint
			}
			tool.put("description", hujson.String(hint))
		}
		if packed, err = pack(definition); err != nil {
			return nil, err
		}
		definition, _ = hujson.Parse(packed) // its literals are schemas
		schema = object{definition.Find("/inputSchema").Value.(*hujson.Object)}
		if bytes.Contains(packed, []byte(`"$ref"`)) {
			in2020(&repairs{}, schema, "inputSchema") // references into branches lead nowhere
		}
	}
	if !forAPIs(schema) && !flattened {
		return nil, nil
	}
	if whole, err := pack(definition); err == nil { // else copies have made it too large
		packed = whole
	}
	return packed, nil
}

// forAPIs makes a schema one that OpenAI's and Gemini's APIs take, and reports whether it was changed. The schema means
// the same, or allows more:
//
//   - the root has properties;
//   - a list of texts has a type;
//   - a required property is one of the properties;
//   - references stand alone, and lead to definitions of the root.
func forAPIs(schema object) (changed bool) {
	if schema.get("properties") == nil {
		schema.put("properties", &hujson.Object{})
		changed = true
	}
	d := definer{root: schema, names: make(map[string]string), taken: make(map[string]int), left: maxCopied}
	if definitions, ok := asObject(schema.get("$defs")); ok {
		d.taken = definitions.index()
	}
	visit(schema, "", func(o object, _ string) {
		if _, isTexts := texts(o.get("enum")); isTexts && o.get("type") == nil {
			o.put("type", hujson.String("string"))
			changed = true
		}
		changed = declare(o) || changed
		changed = d.define(o) || changed
		changed = isolate(o) || changed
	})
	if len(d.names) > 0 && d.left >= 0 {
		schema.remove("definitions") // they are in $defs
	}
	if len(d.names) > 0 {
		visit(schema, "", func(o object, _ string) { // some stand in two places now
			o.remove("$anchor")
			o.remove("$dynamicAnchor")
		})
	}
	return changed
}

// declare adds the properties that a schema requires and does not have, of any value. Names that APIs refuse are no longer required.
func declare(o object) (changed bool) {
	names, _ := texts(o.get("required"))
	properties, ok := asObject(o.get("properties"))
	if !ok {
		properties = object{&hujson.Object{}}
	}
	known := properties.index()
	required := slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		_, declared := known[name]
		if !declared && goodKey.MatchString(name) {
			properties.add(name, &hujson.Object{})
			known[name] = 0
			o.put("properties", properties.Object)
			declared, changed = true, true
		}
		return !declared
	})
	if len(required) < len(names) {
		o.put("required", array(required))
		changed = true
	}
	return changed
}

// isolate moves a reference into a schema of its own if there are keywords next to it.
func isolate(o object) (changed bool) {
	ref := o.get("$ref")
	if ref == nil || !slices.ContainsFunc(o.Members, func(m hujson.ObjectMember) bool { return !bytes.HasPrefix(m.Name.Value.(hujson.Literal), []byte(`"$`)) }) {
		return false
	}
	keyword := "anyOf"
	if o.get(keyword) != nil {
		keyword = "allOf"
	}
	parts := &hujson.Array{}
	if v := o.get(keyword); v != nil {
		parts = v.Value.(*hujson.Array)
	}
	parts.Elements = append(parts.Elements, hujson.Value{Value: member("$ref", ref.Value)})
	o.remove("$ref")
	o.put(keyword, parts)
	return true
}

// maxCopied bounds the schemas that become definitions, in bytes.
const maxCopied = 256 << 10

// A definer makes the targets of references definitions of the root.
type definer struct {
	root  object
	names map[string]string // of the new definitions, by the pointers to where their schemas stand
	taken map[string]int    // names of all definitions
	tried int               // names that were made
	left  int               // bytes that may still be copied; negative once a schema stayed where it is
}

// define makes a reference lead to a definition of the root, and reports whether it changed the reference.
func (d *definer) define(o object) (changed bool) {
	ref, ok := text(o.get("$ref"))
	target, err := url.PathUnescape(strings.TrimPrefix(ref, "#"))
	if !ok || err != nil || target == "/$defs" || strings.HasPrefix(target, "/$defs/") && strings.Count(target, "/") == 2 {
		return false
	}
	if d.names[target] == "" && !d.add(target) {
		return false
	}
	o.put("$ref", hujson.String("#/$defs/"+d.names[target]))
	return true
}

// add adds the schema at a place to the definitions, up to maxCopied and maxSearches.
func (d *definer) add(target string) (added bool) {
	if d.left < 0 {
		return false
	}
	found := (&hujson.Value{Value: d.root.Object}).Find(target)
	if found == nil || len(d.names) == maxSearches {
		d.left = -1
		return false
	}
	if d.left -= len(found.String()); d.left < 0 {
		return false
	}
	definitions, ok := asObject(d.root.get("$defs"))
	if !ok {
		definitions = object{&hujson.Object{}}
		d.root.put("$defs", definitions.Object)
	}
	name := target[strings.LastIndexByte(target, '/')+1:]
	for _, taken := d.taken[name]; taken || !goodKey.MatchString(name); _, taken = d.taken[name] {
		name = fmt.Sprintf("schema%d", d.tried)
		d.tried++
	}
	schema := found.Value
	if target == "" {
		root := object{&hujson.Object{Members: d.root.Members}}
		root.keep(func(i int) bool { return root.name(i) != "$defs" && root.name(i) != "definitions" })
		schema = root.Object
	}
	definitions.add(name, schema)
	d.names[target], d.taken[name] = name, 0
	return true
}
