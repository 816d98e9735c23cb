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

// Bounds of the changes of a schema for APIs of models: of the bytes of schemas that become definitions, and of the properties that
// a schema gets.
const maxCopied, maxDeclared = 256 << 10, 100

// flat returns the definition of a tool for clients that give it to APIs of models, which it changes; nil if the APIs take it as it is.
func flat(definition hujson.Value, tool object, description string) (json.RawMessage, error) {
	schema := object{tool.get("inputSchema").Value.(*hujson.Object)}
	hint, flattened := flatten(schema)
	if flattened {
		if hint != "" {
			tool.put("description", hujson.String(join(description, hint)))
		}
		packed, err := pack(definition)
		if err != nil {
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
	return pack(definition)
}

// An adapter changes a schema as APIs of models want it. The schema means the same, or allows more.
type adapter struct {
	root    object
	names   map[string]string // of definitions, by the pointers to where the schemas stand
	left    int               // bytes that may still be copied
	changed bool
}

// forAPIs makes a schema one that OpenAI's and Gemini's APIs take, and reports whether it was changed:
//
//   - the root has properties;
//   - properties that are required are declared;
//   - a list of texts has a type;
//   - references lead to definitions of the root, or to the root, with a description and a default next to them.
func forAPIs(schema object) (changed bool) {
	a := adapter{root: schema, names: make(map[string]string), left: maxCopied}
	if schema.get("properties") == nil {
		schema.put("properties", &hujson.Object{})
		a.changed = true
	}
	visit(schema, "", func(o object, _ string) {
		a.declare(o)
		if _, isTexts := texts(o.get("enum")); isTexts && o.get("type") == nil {
			o.put("type", hujson.String("string"))
			a.changed = true
		}
		a.reference(o)
	})
	if len(a.names) > 0 {
		if a.left >= 0 {
			schema.remove("definitions") // they are in $defs
		}
		visit(schema, "", func(o object, _ string) { // which may stand in two places now
			o.remove("$anchor")
			o.remove("$dynamicAnchor")
		})
	}
	return a.changed
}

// declare adds properties that the schema requires, and leaves out those with keys that the APIs refuse.
func (a *adapter) declare(o object) {
	names, _ := texts(o.get("required"))
	properties, ok := asObject(o.get("properties"))
	if len(names) == 0 || len(names) > maxDeclared {
		return
	}
	if !ok {
		properties = object{&hujson.Object{}}
	}
	declared := len(properties.Members)
	kept := slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		known := properties.get(name) != nil
		if !known && goodKey.MatchString(name) {
			properties.add(name, &hujson.Object{})
			known = true
		}
		return !known
	})
	if len(kept) < len(names) {
		o.put("required", array(kept))
		a.changed = true
	}
	if len(properties.Members) > declared {
		o.put("properties", properties.Object)
		a.changed = true
	}
}

// reference makes a reference lead to a definition, and moves it into a schema of its own if there are keywords next to it.
func (a *adapter) reference(o object) {
	ref, ok := text(o.get("$ref"))
	if !ok {
		return
	}
	target, _ := url.PathUnescape(strings.TrimPrefix(ref, "#"))
	if simple := target == "" || strings.HasPrefix(target, "/$defs/") && strings.Count(target, "/") == 2; !simple {
		if name := a.definition(target); name != "" {
			o.put("$ref", hujson.String("#/$defs/"+name))
			a.changed = true
		}
	}
	if !slices.ContainsFunc(o.Members, func(m hujson.ObjectMember) bool { return !nextToRef[unquoted(m.Name.Value.(hujson.Literal))] }) {
		return
	}
	keyword := "anyOf"
	if o.get(keyword) != nil {
		keyword = "allOf"
	}
	parts := &hujson.Array{}
	if v := o.get(keyword); v != nil {
		parts = v.Value.(*hujson.Array)
	}
	parts.Elements = append(parts.Elements, hujson.Value{Value: member("$ref", o.get("$ref").Value)})
	o.remove("$ref")
	o.put(keyword, parts)
	a.changed = true
}

// nextToRef are the keywords that Gemini's API takes next to a reference, and that other APIs ignore.
var nextToRef = map[string]bool{"$ref": true, "$defs": true, "$comment": true, "description": true, "default": true}

// definition returns the name of the definition that is the schema at a place, "" if there is none.
func (a *adapter) definition(target string) string {
	if name := a.names[target]; name != "" || len(a.names) == maxSearches {
		return name
	}
	found := (&hujson.Value{Value: a.root.Object}).Find(target)
	definitions, ok := asObject(a.root.get("$defs"))
	if found == nil || ok && found.Value == hujson.ValueTrimmed(definitions.Object) {
		return ""
	}
	if a.left -= len(found.String()); a.left < 0 {
		return ""
	}
	if !ok {
		definitions = object{&hujson.Object{}}
		a.root.put("$defs", definitions.Object)
	}
	name := target[strings.LastIndexByte(target, '/')+1:]
	for n := 2; !goodKey.MatchString(name) || definitions.get(name) != nil; n++ {
		name = fmt.Sprintf("schema%d", n)
	}
	a.names[target] = name
	definitions.add(name, found.Value)
	return name
}
