package discovery

import (
	"encoding/json"
	"math"
	"time"

	"github.com/tailscale/hujson"

	"github.com/mcp-metarouter/metarouter/internal/lazy"
	"github.com/mcp-metarouter/metarouter/registry"
)

// normalizePrompt returns the prompt of one element of a prompts/list result, repaired as
// [Normalize] repairs a tool.
func normalizePrompt(server string, raw json.RawMessage) (registry.Prompt, error) {
	var r repairs
	definition, o, err := r.open(raw, "name")
	if err != nil {
		return registry.Prompt{}, err
	}
	name, err := identify(o, "name")
	if err != nil {
		return registry.Prompt{}, err
	}
	p := registry.Prompt{ID: registry.ID(server, name), Server: server, Name: name}
	p.Title, p.Description = r.text(o, "title"), r.text(o, "description")
	r.arguments(o)
	r.optional(o)
	p.Definition, err = pack(definition)
	p.Repairs = r
	return p, err
}

// normalizeResource returns the resource of one element of a resources/list result,
// repaired as [Normalize] repairs a tool. The URI replaces a missing name.
func normalizeResource(server string, raw json.RawMessage) (registry.Resource, error) {
	var r repairs
	definition, o, err := r.open(raw, "uri")
	if err != nil {
		return registry.Resource{}, err
	}
	uri, err := identify(o, "uri")
	if err != nil {
		return registry.Resource{}, err
	}
	res := registry.Resource{ID: registry.ID(server, uri), Server: server, URI: uri, Name: r.name(o, uri)}
	res.Title, res.Description, res.MIMEType = r.text(o, "title"), r.text(o, "description"), r.text(o, "mimeType")
	if v := o.get("size"); v != nil && !isWhole(v) {
		r.drop(o, "size", "it must be a whole number of bytes")
	}
	r.content(o)
	r.optional(o)
	res.Definition, err = pack(definition)
	res.Repairs = r
	return res, err
}

// normalizeTemplate returns the resource template of one element of a
// resources/templates/list result, repaired as [Normalize] repairs a tool.
func normalizeTemplate(server string, raw json.RawMessage) (registry.Template, error) {
	var r repairs
	definition, o, err := r.open(raw, "uriTemplate")
	if err != nil {
		return registry.Template{}, err
	}
	uri, err := identify(o, "uriTemplate")
	if err != nil {
		return registry.Template{}, err
	}
	t := registry.Template{ID: registry.ID(server, uri), Server: server, URITemplate: uri, Name: r.name(o, uri)}
	t.Title, t.Description, t.MIMEType = r.text(o, "title"), r.text(o, "description"), r.text(o, "mimeType")
	r.content(o)
	r.optional(o)
	t.Definition, err = pack(definition)
	t.Repairs = r
	return t, err
}

// name returns the name of a resource, or its URI if it has no name.
func (r *repairs) name(o object, uri string) string {
	if name, ok := text(o.get("name")); ok {
		return name
	}
	r.note("name: replaced by the URI, since it must be a string")
	o.put("name", hujson.String(uri))
	return uri
}

// arguments removes a prompt's arguments without a name.
func (r *repairs) arguments(prompt object) {
	v := prompt.get("arguments")
	if v == nil {
		return
	}
	array, ok := v.Value.(*hujson.Array)
	if !ok {
		r.drop(prompt, "arguments", "it must be an array and is "+kind(v))
		return
	}
	var kept []hujson.Value
	for i := range array.Elements {
		argument, ok := asObject(&array.Elements[i])
		if ok {
			r.unique(argument, "an argument")
			_, ok = text(argument.get("name"))
		}
		if !ok {
			r.note("arguments: removed number %d, since it must be an object with a name", i+1)
			continue
		}
		r.text(argument, "title")
		r.text(argument, "description")
		r.boolean(argument, "required")
		kept = append(kept, array.Elements[i])
	}
	if n := len(kept); n > 0 && n < len(array.Elements) {
		kept[n-1].AfterExtra = nil // else hujson packs a trailing comma
	}
	array.Elements = kept
}

// content checks the annotations of a resource, which differ from a tool's.
func (r *repairs) content(resource object) {
	v := resource.get("annotations")
	if v == nil {
		return
	}
	annotations, ok := asObject(v)
	if !ok {
		r.drop(resource, "annotations", "it must be an object and is "+kind(v))
		return
	}
	r.unique(annotations, "annotations")
	if v := annotations.get("audience"); v != nil && !isAudience(v) {
		r.drop(annotations, "audience", `it must be an array of "user" and "assistant"`)
	}
	if v := annotations.get("priority"); v != nil && !isNumber(v, 0, 1) {
		r.drop(annotations, "priority", "it must be a number from 0 to 1")
	}
	if v := annotations.get("lastModified"); v != nil && !isTime(v) {
		r.drop(annotations, "lastModified", "it must be a time with a zone, as in ISO 8601")
	}
}

func isAudience(v *hujson.Value) bool {
	roles, ok := texts(v)
	for _, role := range roles {
		ok = ok && (role == "user" || role == "assistant")
	}
	return ok
}

func isNumber(v *hujson.Value, least, most float64) bool {
	var n float64 // infinite where a client would have it so: then Unmarshal fails
	return v.Value.Kind() == '0' && json.Unmarshal(v.Value.(hujson.Literal), &n) == nil && n >= least && n <= most
}

// isWhole reports whether clients take the value for a number of bytes: 3.0 is one.
func isWhole(v *hujson.Value) bool {
	var n float64
	return isNumber(v, 0, 1<<53) && json.Unmarshal(v.Value.(hujson.Literal), &n) == nil && n == math.Trunc(n)
}

// The time package accepts more than clients do.
var timeForm = lazy.Regexp(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$`)

func isTime(v *hujson.Value) bool {
	s, ok := text(v)
	_, err := time.Parse(time.RFC3339, s)
	return ok && err == nil && timeForm().MatchString(s)
}
