package functions

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
)

// inputSchema returns the schema of arguments that are decoded into a t.
func inputSchema(t reflect.Type) (*jsonschema.Schema, error) {
	s, err := schemaOf(t)
	if err == nil && s.Type != "object" {
		err = fmt.Errorf("its arguments are %s; use a struct or a map without its own JSON encoding", t)
	}
	return s, err
}

// outputSchema returns the schema of the structured content of a function that returns
// t, or nil if it has no schema.
func outputSchema(t reflect.Type) *jsonschema.Schema {
	if k := t.Kind(); k == reflect.Pointer || k == reflect.Interface {
		return nil // it may be null, or anything
	}
	s, err := schemaOf(t)
	switch {
	case err != nil, slices.Contains(s.Types, "object"): // it may be anything
		return nil
	case s.Type == "object":
		return s
	}
	return &jsonschema.Schema{Type: "object", Properties: map[string]*jsonschema.Schema{"result": s}, Required: []string{"result"}}
}

// schemaOf returns the schema of a t as encoding/json encodes it, without null.
func schemaOf(t reflect.Type) (*jsonschema.Schema, error) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	special := make(map[reflect.Type]*jsonschema.Schema)
	if err := specialize(t, special, make(map[reflect.Type]bool)); err != nil {
		return nil, err
	}
	return jsonschema.ForType(t, &jsonschema.ForOptions{TypeSchemas: special})
}

// specialize adds the types in t with a JSON encoding of their own to special. It returns an error
// for types that [jsonschema.ForType] would describe wrongly; that rejects recursive types itself.
func specialize(t reflect.Type, special map[reflect.Type]*jsonschema.Schema, seen map[reflect.Type]bool) error {
	if seen[t] {
		return nil
	}
	seen[t] = true
	switch {
	case t == reflect.TypeFor[time.Time]():
		special[t] = &jsonschema.Schema{Type: "string", Format: "date-time"}
		return nil
	case t == reflect.TypeFor[json.Number]():
		special[t] = &jsonschema.Schema{Type: "number"}
		return nil
	case t.Kind() == reflect.Interface: // anything
		return nil
	case is[json.Marshaler](t) || is[json.Unmarshaler](t):
		special[t] = &jsonschema.Schema{Types: []string{"null", "boolean", "object", "array", "number", "string"}}
		return nil
	case is[encoding.TextMarshaler](t) || is[encoding.TextUnmarshaler](t):
		special[t] = &jsonschema.Schema{Type: "string"}
		return nil
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8:
		special[t] = &jsonschema.Schema{Types: []string{"null", "string"}, ContentEncoding: "base64"}
		return nil
	}
	switch t.Kind() {
	case reflect.Pointer, reflect.Map, reflect.Slice, reflect.Array:
		return specialize(t.Elem(), special, seen)
	case reflect.Struct:
		for i := range t.NumField() {
			f := t.Field(i)
			name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
			switch {
			case f.Tag.Get("json") == "-", !f.IsExported() && !(f.Anonymous && deref(f.Type).Kind() == reflect.Struct):
				continue
			case f.Anonymous && (name != "" || deref(f.Type).Kind() != reflect.Struct || !f.IsExported() && f.Type.Kind() == reflect.Pointer):
				return fmt.Errorf("%s has an embedded %s whose fields are not simply fields of the JSON: give it a name in Go", t, f.Name)
			case slices.Contains(strings.Split(options, ","), "string"):
				return fmt.Errorf(`%s.%s has the option "string" in its tag, which a schema can't express`, t, f.Name)
			}
			if err := specialize(f.Type, special, seen); err != nil {
				return err
			}
		}
	}
	return nil
}

// is reports whether t or a pointer to it implements I.
func is[I any](t reflect.Type) bool { return reflect.PointerTo(t).Implements(reflect.TypeFor[I]()) }

func deref(t reflect.Type) reflect.Type {
	if t.Kind() == reflect.Pointer {
		return t.Elem()
	}
	return t
}
