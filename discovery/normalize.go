package discovery

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/tailscale/hujson"

	"github.com/mcp-metarouter/metarouter/registry"
)

// Normalize makes a tool of one element of a tools/list result, cleaned of what
// would make a client reject the tool, or the whole list for its sake. Whatever
// need not be repaired keeps its bytes; each repair is in Repairs. rename maps
// the server's names to ours. The tags are left to [Taxonomy.Infer].
//
// The rules are those of the clients in use: the TypeScript SDK refuses a list
// where a field has another type than the specification gives it or a schema is
// no object schema, and the Anthropic API refuses a request where a schema has
// anyOf, oneOf or allOf at its top level. InputSchema keeps these three, since
// arguments are validated against it; Definition shows them merged.
//
// An error says why the tool cannot be offered at all.
func Normalize(server string, raw json.RawMessage, rename map[string]string) (registry.NormalizedTool, error) {
	var r repairs
	if !utf8.Valid(raw) {
		raw = bytes.ToValidUTF8(raw, []byte("\uFFFD"))
		r.note("replaced bytes that are not UTF-8")
	}
	definition, err := parse(raw)
	if err != nil {
		return registry.NormalizedTool{}, err
	}
	tool, ok := asObject(&definition)
	if !ok {
		return registry.NormalizedTool{}, errors.New("it is not an object")
	}
	r.unique(tool, "the tool")
	name, _ := text(tool.get("name"))
	if name == "" {
		return registry.NormalizedTool{}, errors.New("it has no name")
	}

	t := registry.NormalizedTool{Server: server, Name: name}
	if ours := rename[name]; ours != "" && ours != name {
		t.Name, t.Original = ours, name
		tool.put("name", hujson.String(ours))
	}
	t.ID = registry.ToolID(server, t.Name)
	t.Title = r.text(tool, "title")
	t.Description = r.text(tool, "description")
	t.Hints = r.annotations(tool, &t)
	r.optional(tool)

	schema := r.inputSchema(tool)
	t.InputSchema = hujson.Value{Value: schema.Object}.Pack()
	if hint := r.flatten(schema); hint != "" {
		tool.put("description", hujson.String(join(t.Description, hint)))
	}
	r.outputSchema(tool)

	t.Definition = definition.Pack()
	if len(t.Definition) > maxBytes || depth(t.Definition) > maxDepth {
		return registry.NormalizedTool{}, errors.New("its definition is too large or too deep once repaired")
	}
	t.Repairs = r
	return t, nil
}

// repairs are the notes on what was changed, and the hands that change it.
type repairs []string

// note keeps what was changed. A definition that is wrong all over is told of
// in part.
func (r *repairs) note(format string, args ...any) {
	const most = 20
	switch {
	case len(*r) < most:
		*r = append(*r, fmt.Sprintf(format, args...))
	case len(*r) == most:
		*r = append(*r, "and more")
	}
}

// unique leaves one member of each name in o.
func (r *repairs) unique(o object, where string) {
	if n := o.unique(); n > 0 {
		r.note("%s: removed %d members whose name comes again later", where, n)
	}
}

// drop removes a member that has the wrong form.
func (r *repairs) drop(o object, name, why string) {
	o.remove(name)
	r.note("%s: removed, since %s", name, why)
}

// text returns a member that must be a string if it is there.
func (r *repairs) text(o object, name string) string {
	v := o.get(name)
	s, ok := text(v)
	if !ok && v != nil {
		r.drop(o, name, "it must be a string and is "+kind(v))
	}
	return s
}

// annotations returns the tool's hints; their title stands in for a missing one.
func (r *repairs) annotations(tool object, t *registry.NormalizedTool) registry.Hints {
	v := tool.get("annotations")
	if v == nil {
		return registry.Hints{}
	}
	annotations, ok := asObject(v)
	if !ok {
		r.drop(tool, "annotations", "it must be an object and is "+kind(v))
		return registry.Hints{}
	}
	r.unique(annotations, "annotations")
	if title := r.text(annotations, "title"); t.Title == "" {
		t.Title = title
	}
	hint := func(name string) *bool {
		v := annotations.get(name)
		if v == nil {
			return nil
		}
		b, ok := v.Value.(hujson.Literal)
		if k := v.Value.Kind(); !ok || k != 't' && k != 'f' {
			r.drop(annotations, name, "it must be a boolean and is "+kind(v))
			return nil
		}
		return new(b.Bool())
	}
	return registry.Hints{
		ReadOnly:    hint("readOnlyHint"),
		Destructive: hint("destructiveHint"),
		Idempotent:  hint("idempotentHint"),
		OpenWorld:   hint("openWorldHint"),
	}
}

// optional removes the members that clients check and the router does not read,
// where they have a form that a client refuses.
func (r *repairs) optional(tool object) {
	if v := tool.get("_meta"); v != nil && v.Value.Kind() != '{' {
		r.drop(tool, "_meta", "it must be an object and is "+kind(v))
	}
	if v := tool.get("icons"); v != nil && !validIcons(v) {
		r.drop(tool, "icons", "it must be an array of icons, each with a src")
	}
	if v := tool.get("execution"); v != nil && !validExecution(v) {
		r.drop(tool, "execution", "it must be an object whose taskSupport is forbidden, optional or required")
	}
}

func validIcons(v *hujson.Value) bool {
	icons, ok := v.Value.(*hujson.Array)
	if !ok {
		return false
	}
	for i := range icons.Elements {
		icon, ok := asObject(&icons.Elements[i])
		if !ok {
			return false
		}
		_, src := text(icon.get("src"))
		_, mime := text(icon.get("mimeType"))
		_, sizes := texts(icon.get("sizes"))
		theme, _ := text(icon.get("theme"))
		if !src ||
			!mime && icon.get("mimeType") != nil ||
			!sizes && icon.get("sizes") != nil ||
			theme != "light" && theme != "dark" && icon.get("theme") != nil {
			return false
		}
	}
	return true
}

func validExecution(v *hujson.Value) bool {
	execution, ok := asObject(v)
	if !ok {
		return false
	}
	v = execution.get("taskSupport")
	if v == nil {
		return true
	}
	switch s, _ := text(v); s {
	case "forbidden", "optional", "required":
		return true
	}
	return false
}

// join puts a hint behind a description.
func join(description, hint string) string {
	if description == "" {
		return hint
	}
	return description + "\n\n" + hint
}
