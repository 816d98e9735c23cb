package schema

import (
	"encoding/json"
	"math/big"
	"slices"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// fitsMember compares a member with a schema.
func (e *evaluation) fitsMember(s *jsonschema.Schema, name string, v any, declared bool) bool {
	e.path = append(e.path, place{name: name, declared: declared})
	fits := e.fits(s, v, nil)
	e.path = e.path[:len(e.path)-1]
	return fits
}

// fitsItem compares an item with a schema.
func (e *evaluation) fitsItem(s *jsonschema.Schema, i int, v any) bool {
	e.path = append(e.path, place{index: i, item: true})
	fits := e.fits(s, v, nil)
	e.path = e.path[:len(e.path)-1]
	return fits
}

// all collects whether all comparisons of a value succeeded.
type all struct {
	e      *evaluation
	failed bool
}

// and reports whether to go on.
func (a *all) and(fits bool) bool {
	a.failed = a.failed || !fits
	return !a.failed || a.e.wantsMore()
}

// check records a fault if ok is false.
func (a *all) check(ok bool, what func() jsonschema.ErrorKind) {
	if !ok {
		a.failed = true
		a.e.fail(what)
	}
}

func (e *evaluation) fitsObject(s *jsonschema.Schema, object map[string]any, rest *unevaluated) bool {
	a := all{e: e}
	if least := s.MinProperties; least != nil {
		a.check(len(object) >= *least, func() jsonschema.ErrorKind { return &kind.MinProperties{Got: len(object), Want: *least} })
	}
	if most := s.MaxProperties; most != nil {
		a.check(len(object) <= *most, func() jsonschema.ErrorKind { return &kind.MaxProperties{Got: len(object), Want: *most} })
	}
	missing := e.missing(object, s.Required)
	a.check(missing == nil, func() jsonschema.ErrorKind { return &kind.Required{Missing: missing} })
	if !a.and(e.fitsDependencies(s, object, rest)) {
		return false
	}
	if !a.and(e.fitsMembers(s, object, rest)) {
		return false
	}
	if s.PropertyNames != nil {
		for name := range object {
			if !a.and(e.fits(s.PropertyNames, name, nil)) {
				return false
			}
		}
	}
	return !a.failed
}

// fitsMembers compares all members with the schemas for their names.
func (e *evaluation) fitsMembers(s *jsonschema.Schema, object map[string]any, rest *unevaluated) bool {
	if len(s.Properties)+len(s.PatternProperties) == 0 && s.AdditionalProperties == nil {
		return true
	}
	a := all{e: e}
	e.spend(len(object) / 4)
	var additional []string
	for name, v := range object {
		ok, evaluated := e.fitsNamed(s, name, v)
		if no, is := s.AdditionalProperties.(bool); is && !no && !evaluated {
			additional = append(additional, name)
		}
		if evaluated || s.AdditionalProperties != nil {
			rest.deleteMember(name)
		}
		if !a.and(ok) {
			return false
		}
	}
	slices.Sort(additional)
	a.check(additional == nil, func() jsonschema.ErrorKind { return &kind.AdditionalProperties{Properties: additional} })
	return !a.failed
}

// fitsNamed compares a member with the schemas for its name, and reports whether there are any
// besides additionalProperties.
func (e *evaluation) fitsNamed(s *jsonschema.Schema, name string, v any) (fits, evaluated bool) {
	a := all{e: e}
	if property, ok := s.Properties[name]; ok {
		evaluated = true
		a.and(e.fitsMember(property, name, v, true))
	}
	for re, property := range s.PatternProperties {
		if e.finds(re, name) {
			evaluated = true
			a.and(e.fitsMember(property, name, v, false))
		}
	}
	if additional, ok := s.AdditionalProperties.(*jsonschema.Schema); ok && !evaluated {
		a.and(e.fitsMember(additional, name, v, false))
	}
	return !a.failed, evaluated
}

// fitsDependencies compares an object with what the presence of a member asks for.
func (e *evaluation) fitsDependencies(s *jsonschema.Schema, object map[string]any, rest *unevaluated) bool {
	a := all{e: e}
	has := func(name string) bool {
		e.spend(1)
		_, ok := object[name]
		return ok
	}
	for name, dependency := range s.Dependencies {
		if !has(name) {
			continue
		}
		switch dependency := dependency.(type) {
		case []string:
			missing := e.missing(object, dependency)
			a.check(missing == nil, func() jsonschema.ErrorKind { return &kind.Dependency{Prop: name, Missing: missing} })
		case *jsonschema.Schema:
			a.and(e.fits(dependency, object, rest))
		}
	}
	for name, part := range s.DependentSchemas {
		if has(name) {
			a.and(e.fits(part, object, rest))
		}
	}
	for name, required := range s.DependentRequired {
		if has(name) {
			missing := e.missing(object, required)
			a.check(missing == nil, func() jsonschema.ErrorKind { return &kind.DependentRequired{Prop: name, Missing: missing} })
		}
	}
	return !a.failed
}

func (e *evaluation) missing(object map[string]any, required []string) (missing []string) {
	e.spend(len(required) / 4)
	for _, name := range required {
		if _, ok := object[name]; !ok {
			missing = append(missing, name)
		}
	}
	return missing
}

func (e *evaluation) fitsArray(s *jsonschema.Schema, items []any, rest *unevaluated) bool {
	a := all{e: e}
	if least := s.MinItems; least != nil {
		a.check(len(items) >= *least, func() jsonschema.ErrorKind { return &kind.MinItems{Got: len(items), Want: *least} })
	}
	if most := s.MaxItems; most != nil {
		a.check(len(items) <= *most, func() jsonschema.ErrorKind { return &kind.MaxItems{Got: len(items), Want: *most} })
	}
	if s.UniqueItems && len(items) > 1 {
		i, j := e.duplicates(items)
		a.check(i < 0, func() jsonschema.ErrorKind { return &kind.UniqueItems{Duplicates: [2]int{i, j}} })
	}
	first, others := itemSchemas(s)
	for i, item := range items {
		one := others
		if i < len(first) {
			one = first[i]
		} else if others == nil {
			break // no schema for this item and those after it
		}
		if !a.and(e.fitsItem(one, i, item)) {
			return false
		}
	}
	if more, is := s.AdditionalItems.(bool); is && !more && s.DraftVersion < 2020 && len(items) > len(first) {
		a.check(false, func() jsonschema.ErrorKind { return &kind.AdditionalItems{Count: len(items) - len(first)} })
	}
	if s.Contains != nil {
		a.and(e.fitsContains(s, items, rest))
	}
	return !a.failed
}

// itemSchemas returns the schemas of the first items, and that of the others, which may be nil.
func itemSchemas(s *jsonschema.Schema) (first []*jsonschema.Schema, others *jsonschema.Schema) {
	if s.DraftVersion >= 2020 {
		return s.PrefixItems, s.Items2020
	}
	switch items := s.Items.(type) {
	case *jsonschema.Schema:
		return nil, items
	case []*jsonschema.Schema:
		first = items
	}
	others, _ = s.AdditionalItems.(*jsonschema.Schema)
	return first, others
}

// fitsContains compares the items with the schema of which some have to be.
func (e *evaluation) fitsContains(s *jsonschema.Schema, items []any, rest *unevaluated) bool {
	a := all{e: e}
	before := len(e.faults)
	var matched []int
	for i, item := range items {
		if e.fitsItem(s.Contains, i, item) {
			matched = append(matched, i)
			if s.DraftVersion >= 2020 {
				rest.deleteItem(i)
			}
		}
	}
	few := len(matched) == 0
	if s.MinContains != nil {
		few = len(matched) < *s.MinContains
	}
	switch {
	case few && len(matched) < len(items): // the faults of the other items stand
		a.failed = true
	case few && s.MinContains != nil:
		a.check(false, func() jsonschema.ErrorKind { return &kind.MinContains{Got: matched, Want: *s.MinContains} })
	case few:
		a.check(false, func() jsonschema.ErrorKind { return &kind.Contains{} })
	default:
		e.faults = e.faults[:before]
	}
	if most := s.MaxContains; most != nil {
		a.check(len(matched) <= *most, func() jsonschema.ErrorKind { return &kind.MaxContains{Got: matched, Want: *most} })
	}
	return !a.failed
}

func (e *evaluation) fitsString(s *jsonschema.Schema, text string) bool {
	a := all{e: e}
	if s.MinLength != nil || s.MaxLength != nil {
		e.spend(len(text) / 256)
		n := utf8.RuneCountInString(text)
		if least := s.MinLength; least != nil {
			a.check(n >= *least, func() jsonschema.ErrorKind { return &kind.MinLength{Got: n, Want: *least} })
		}
		if most := s.MaxLength; most != nil {
			a.check(n <= *most, func() jsonschema.ErrorKind { return &kind.MaxLength{Got: n, Want: *most} })
		}
	}
	if s.Pattern != nil {
		a.check(e.finds(s.Pattern, text), func() jsonschema.ErrorKind { return &kind.Pattern{Got: text, Want: s.Pattern.String()} })
	}
	return !a.failed
}

// finds reports whether the expression matches somewhere in the text. The time that takes grows
// with the product of their sizes.
func (e *evaluation) finds(re jsonschema.Regexp, text string) bool {
	if p, ok := re.(pattern); ok {
		e.spend(1 + p.size*len(text)/32)
	}
	return re.MatchString(text)
}

func (e *evaluation) fitsNumber(s *jsonschema.Schema, n json.Number) bool {
	if s.Minimum == nil && s.Maximum == nil && s.ExclusiveMinimum == nil && s.ExclusiveMaximum == nil && s.MultipleOf == nil {
		return true
	}
	a, x := all{e: e}, e.number(n)
	if y := s.Minimum; y != nil {
		a.check(x.Cmp(y) >= 0, func() jsonschema.ErrorKind { return &kind.Minimum{Got: x, Want: y} })
	}
	if y := s.Maximum; y != nil {
		a.check(x.Cmp(y) <= 0, func() jsonschema.ErrorKind { return &kind.Maximum{Got: x, Want: y} })
	}
	if y := s.ExclusiveMinimum; y != nil {
		a.check(x.Cmp(y) > 0, func() jsonschema.ErrorKind { return &kind.ExclusiveMinimum{Got: x, Want: y} })
	}
	if y := s.ExclusiveMaximum; y != nil {
		a.check(x.Cmp(y) < 0, func() jsonschema.ErrorKind { return &kind.ExclusiveMaximum{Got: x, Want: y} })
	}
	if y := s.MultipleOf; y != nil {
		e.spendFor(n)
		a.check(y.Sign() != 0 && new(big.Rat).Quo(x, y).IsInt(), func() jsonschema.ErrorKind { return &kind.MultipleOf{Got: x, Want: y} })
	}
	return !a.failed
}
