package discovery

import (
	"github.com/tailscale/hujson"
)

// inputSchema makes the tool's inputSchema an object schema and returns it.
func (r *repairs) inputSchema(tool object) object {
	v := tool.get("inputSchema")
	schema, ok := asObject(v)
	if !ok {
		is := "missing"
		if v != nil {
			is = kind(v)
		}
		r.note("inputSchema: replaced by an empty object schema, since it was %s", is)
		schema = object{&hujson.Object{}}
		tool.put("inputSchema", schema.Object)
	}
	r.unique(schema, "inputSchema")
	if typ := schema.get("type"); typ == nil {
		if ok {
			r.note(`inputSchema: added type "object"`)
		}
		schema.put("type", hujson.String("object"))
	} else if s, _ := text(typ); s != "object" {
		r.note(`inputSchema: type %.80s replaced by "object"`, hujson.Value{Value: typ.Value}.Pack())
		schema.put("type", hujson.String("object"))
	}
	r.members(schema, "inputSchema")
	return schema
}

// outputSchema removes an outputSchema that is not an object schema, or can't be compiled: clients of
// revisions before 2026-07-28 refuse the whole list for it, with the tools of all servers. Results are passed
// on all the same.
func (r *repairs) outputSchema(tool object) {
	schema, ok := r.object(tool, "outputSchema")
	if !ok {
		return
	}
	if typ, _ := text(schema.get("type")); typ != "object" {
		r.drop(tool, "outputSchema", `its type must be "object"`)
		return
	}
	r.members(schema, "outputSchema")
	in2020(r, schema, "outputSchema")
	if err := compiles(hujson.Value{Value: schema.Object}.Pack()); err != nil {
		r.drop(tool, "outputSchema", "it can't be compiled: "+err.Error())
	}
}

// members makes properties a map of schema objects and required an array of
// strings. A boolean is a schema too (JSON Schema, 4.3.2) but one that clients
// refuse; it becomes the object that means the same. The types of the schemas within are
// repaired.
func (r *repairs) members(schema object, where string) {
	if v := schema.get("properties"); v != nil {
		properties, ok := asObject(v)
		if !ok {
			schema.remove("properties")
			r.note("%s: removed properties, since it must be an object and was %s", where, kind(v))
		} else {
			r.unique(properties, where+".properties")
			for i := range properties.Members {
				if v := &properties.Members[i].Value; v.Value.Kind() != '{' {
					r.note("%s: property %.80q was %s instead of a schema object", where, properties.name(i), kind(v))
					v.Value = schemaObject(v)
				}
			}
		}
	}
	if v := schema.get("required"); v != nil {
		if _, ok := texts(v); !ok {
			schema.remove("required")
			r.note("%s: removed required, since it must be an array of strings", where)
		}
	}
	(&cleaner{r: r, path: []string{where}}).clean(schema)
}

// schemaObject returns the object that means the same as a boolean schema. For a value that
// is not a schema it returns the object that forbids nothing.
func schemaObject(v *hujson.Value) hujson.ValueTrimmed {
	switch v.Value.Kind() {
	case '{':
		return v.Value
	case 'f':
		return member("not", &hujson.Object{})
	}
	return &hujson.Object{}
}
