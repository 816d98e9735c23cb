package schema

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/mcp-metarouter/metarouter/internal/prose"
)

var english = message.NewPrinter(language.English)

// A fault is a place where the value does not fit.
type fault struct {
	path []string // of names and indexes
	kind jsonschema.ErrorKind
	fill defaults // the missing members, if each has a default
	at   *jsonschema.Schema
}

// defaults are members that a schema requires, with their defaults.
type defaults map[string]any

func (f fault) text(root, meant string) string {
	return prose.Cut(strings.Join(append([]string{root}, f.path...), ".")+": "+f.kind.LocalizedString(english)+meant, maxFault)
}

// meant suggests a declared member for one of the value that is not declared and has nearly its name; "" if it finds no such pair.
func (s *Schema) meant(f fault, value any) string {
	o, _ := valueAt(value, f.path).(map[string]any)
	var known []string
	switch k := f.kind.(type) {
	case *kind.Required:
		known = k.Missing
	case *kind.AdditionalProperties: // a required one is in its own fault
		known = slices.Sorted(maps.Keys(f.at.Properties))
		known = slices.DeleteFunc(known[:min(len(known), maxDeclared)], func(name string) bool { return o[name] != nil || slices.Contains(f.at.Required, name) })
	}
	known = known[:min(len(known), maxDeclared)]
	for _, name := range slices.Sorted(maps.Keys(o))[:min(len(o), maxGiven)] {
		if len(name) < 3 || len(name) > maxNameLength {
			continue
		}
		if like, ok := prose.Nearest(name, known); ok && f.at.Properties[name] == nil {
			return fmt.Sprintf("; did you mean %q instead of %q?", s.keys.Name(like), name)
		}
	}
	return ""
}

// faults returns the places where a value is wrong, at most so many.
func (s *Schema) faults(wrong *jsonschema.ValidationError, most int) (all []fault) {
	var add func(e *jsonschema.ValidationError, named bool)
	add = func(e *jsonschema.ValidationError, named bool) {
		if _, ok := e.ErrorKind.(*kind.PropertyNames); ok {
			named = true // the library does not say reliably where the name is
		}
		for i := 0; i < len(e.Causes) && len(all) < most; i++ {
			add(e.Causes[i], named)
		}
		if len(e.Causes) > 0 || len(all) == most {
			return
		}
		f := fault{path: e.InstanceLocation, kind: e.ErrorKind, at: cmp.Or(s.parts[e.SchemaURL], new(jsonschema.Schema))}
		if named {
			f.path = nil
		}
		switch k := e.ErrorKind.(type) {
		case *kind.AdditionalProperties:
			slices.Sort(k.Properties)
		case *kind.Required: // one fault for all missing members: those without a default, or those to fill in if each has one
			var needed []string
			if needed, f.fill = s.missing(e, k); len(needed) > 0 {
				f.kind, f.fill = &kind.Required{Missing: needed}, nil
			}
		}
		all = append(all, f)
	}
	add(wrong, false)
	return all
}

// missing returns the missing members that have no default, and the others.
func (s *Schema) missing(e *jsonschema.ValidationError, required *kind.Required) (needed []string, fill defaults) {
	fill = make(defaults)
	at := cmp.Or(s.parts[e.SchemaURL], new(jsonschema.Schema))
	for _, name := range required.Missing {
		if property := at.Properties[name]; property != nil && property.Default != nil {
			fill[name] = *property.Default
		} else {
			needed = append(needed, name)
		}
	}
	return needed, fill
}

// isExcused reports whether a value would fit if members with a default were not required.
func (s *Schema) isExcused(e *jsonschema.ValidationError) bool {
	switch k := e.ErrorKind.(type) {
	case *kind.Required:
		needed, _ := s.missing(e, k)
		return len(needed) == 0
	case *kind.AnyOf:
		return slices.ContainsFunc(e.Causes, s.isExcused)
	case *kind.OneOf: // a value that would fit two of them does not fit
		return len(slices.DeleteFunc(slices.Clone(e.Causes), func(cause *jsonschema.ValidationError) bool { return !s.isExcused(cause) })) == 1
	case *kind.Schema, *kind.Group, *kind.AllOf, *kind.Reference:
		return !slices.ContainsFunc(e.Causes, func(cause *jsonschema.ValidationError) bool { return !s.isExcused(cause) })
	}
	return false
}
