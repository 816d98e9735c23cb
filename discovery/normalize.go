package discovery

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/tailscale/hujson"

	"github.com/mcp-metarouter/metarouter/internal/content"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/registry"
)

// Normalize returns the tool of one element of a tools/list result. It repairs everything
// that makes clients reject the tool, or the whole list because of it, and lists the
// repairs in Repairs. All other bytes stay as they are. rename maps the server's names of
// tools to ours. The tool has no capabilities yet: see [Taxonomy.Infer].
//
// Characters that a person does not see and a model reads, such as tags of Unicode, are
// removed from every string (see package plain), also from the name: Original is the
// server's own.
//
// The rules come from the clients in use: the TypeScript SDK rejects a list if a field
// has another type than in the specification or a schema is not an object schema. The
// Anthropic API rejects a request if a schema has anyOf, oneOf or allOf at its top level;
// Flat has these three merged, and is changed for other APIs, see [forAPIs]. An API also
// refuses a request for a regular expression that its engine does not know; only
// ServerSchema has these.
//
// An error says why the tool cannot be offered.
func Normalize(server string, raw json.RawMessage, rename map[string]string) (registry.NormalizedTool, error) {
	var r repairs
	definition, tool, err := r.open(raw, "name")
	if err != nil {
		return registry.NormalizedTool{}, err
	}
	name, _ := text(tool.get("name"))
	seen := nameOf(name)
	if seen == "" {
		return registry.NormalizedTool{}, errors.New("it has no name")
	}
	if seen != name {
		r.note("name: %s", hiddenNote)
	}
	if len(name) > maxName {
		return registry.NormalizedTool{}, fmt.Errorf("its name has %d bytes, more than %d", len(name), maxName)
	}

	t := registry.NormalizedTool{Server: server, Name: name}
	if ours := cmp.Or(rename[name], rename[seen], seen); ours != name {
		t.Name, t.Original = ours, name
		tool.put("name", hujson.String(ours))
	}
	t.ID = registry.ID(server, t.Name)
	t.Title = r.text(tool, "title")
	t.Description = r.text(tool, "description")
	t.Hints = r.annotations(tool, &t)
	r.optional(tool)
	if v := tool.get("execution"); v != nil && !validExecution(v) {
		r.drop(tool, "execution", "it must be an object whose taskSupport is forbidden, optional or required")
	}

	t.Suspect = suspects(hiding(r), nil, definition)
	schema := r.inputSchema(tool)
	r.outputSchema(tool)
	whole := (hujson.Value{Value: schema.Object}).Pack()
	keys, changed, wider := in2020(&r, schema, "inputSchema")
	if t.Keys = keys; changed && (wider || keys != nil || compiles(whole) == nil) { // else the schema that clients see says the same, and can be checked
		t.ServerSchema = bytes.Clone(whole)
	}
	t.Repairs = r
	if t.Definition, err = pack(definition); err != nil {
		return t, err
	}
	t.InputSchema = within(t.Definition, hujson.Value{Value: schema.Object}.Pack())
	t.Flat, err = flat(definition, tool, t.Description)
	return t, err
}

// repairs are notes on changes. Its methods change a definition and add a note.
type repairs []string

// note adds a note, up to a bound.
func (r *repairs) note(format string, args ...any) {
	const most = 20
	switch {
	case len(*r) < most:
		*r = append(*r, fmt.Sprintf(format, args...))
	case len(*r) == most:
		*r = append(*r, "and more")
	}
}

// open parses the definition of one element of a list, and removes hidden characters. key is
// the member by which the server knows the element, which stays as it is.
func (r *repairs) open(raw json.RawMessage, key string) (definition hujson.Value, o object, err error) {
	if !utf8.Valid(raw) {
		raw = bytes.ToValidUTF8(raw, []byte("\uFFFD"))
		r.note("replaced bytes that are not UTF-8")
	}
	if definition, err = parse(raw); err != nil {
		return definition, o, err
	}
	o, ok := asObject(&definition)
	if !ok {
		return definition, o, errors.New("it is not an object")
	}
	if mayHide(raw) {
		r.reveal(o, key)
	}
	r.unique(o, "the definition")
	return definition, o, nil
}

// pack returns the JSON of a definition that open has parsed.
func pack(definition hujson.Value) (json.RawMessage, error) {
	packed := definition.Pack()
	if levels, err := wire.Levels(packed); err != nil || len(packed) > maxBytes || levels > maxDepth {
		return nil, errors.New("its definition is too large or too deep once repaired")
	}
	return bytes.Clone(packed), nil // which has less room at its end
}

// within returns the bytes of a part where the whole has them, or the part if the whole lacks them.
func within(whole, part json.RawMessage) json.RawMessage {
	at := bytes.Index(whole, part)
	if at < 0 {
		return part
	}
	end := at + len(part)
	return whole[at:end:end]
}

// unique removes members that come again, as [object.unique] does, and notes it.
func (r *repairs) unique(o object, where string) {
	if n := o.unique(); n > 0 {
		r.note("%s: removed %d members whose name comes again later", where, n)
	}
}

// object returns a member that must be an object if it is there, with the last of its members of each name; it drops it otherwise.
func (r *repairs) object(o object, name string) (inner object, ok bool) {
	v := o.get(name)
	if inner, ok = asObject(v); ok {
		r.unique(inner, name)
	} else if v != nil {
		r.drop(o, name, "it must be an object and is "+kind(v))
	}
	return inner, ok
}

// drop removes a member that has the wrong form.
func (r *repairs) drop(o object, name, why string) {
	o.remove(name)
	r.note("%s: removed, since %s", name, why)
}

// text returns a member that must be a string if it exists, and drops it otherwise.
func (r *repairs) text(o object, name string) string {
	v := o.get(name)
	s, ok := text(v)
	if !ok && v != nil {
		r.drop(o, name, "it must be a string and is "+kind(v))
	}
	return s
}

// boolean returns a member that must be a boolean if it is there; nil if it is not.
func (r *repairs) boolean(o object, name string) *bool {
	v := o.get(name)
	if v == nil {
		return nil
	}
	k := v.Value.Kind()
	if k != 't' && k != 'f' {
		r.drop(o, name, "it must be a boolean and is "+kind(v))
		return nil
	}
	return new(k == 't')
}

// annotations returns the tool's hints. Their title replaces a missing title of the tool.
func (r *repairs) annotations(tool object, t *registry.NormalizedTool) registry.Hints {
	annotations, ok := r.object(tool, "annotations")
	if !ok {
		return registry.Hints{}
	}
	if title := r.text(annotations, "title"); t.Title == "" {
		t.Title = title
	}
	return registry.Hints{
		ReadOnly:    r.boolean(annotations, "readOnlyHint"),
		Destructive: r.boolean(annotations, "destructiveHint"),
		Idempotent:  r.boolean(annotations, "idempotentHint"),
		OpenWorld:   r.boolean(annotations, "openWorldHint"),
	}
}

// optional removes members that the router does not read, if they have a form that clients
// reject.
func (r *repairs) optional(o object) {
	r.refused(o, "_meta", "it must be an object")
	r.refused(o, "icons", "it must be an array of icons, each with a src")
}

// refused removes a member that clients refuse.
func (r *repairs) refused(o object, name, why string) {
	if v := o.get(name); v != nil && !content.Takes(name, hujson.Value{Value: v.Value}.Pack()) {
		r.drop(o, name, why)
	}
}

func validExecution(v *hujson.Value) bool {
	execution, ok := asObject(v)
	if !ok || execution.get("taskSupport") == nil {
		return ok
	}
	s, _ := text(execution.get("taskSupport"))
	return s == "forbidden" || s == "optional" || s == "required"
}
