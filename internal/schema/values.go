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
func (e *evaluation) fitsMember(s *jsonschema.Schema, name string, v any) bool {
	e.path = append(e.path, place{name: name})
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

func (c *comparison) object(object map[string]any) bool {
	s := c.schema
	c.check(s.MinProperties == nil || len(object) >= *s.MinProperties, func() jsonschema.ErrorKind { return &kind.MinProperties{Got: len(object), Want: *s.MinProperties} })
	c.check(s.MaxProperties == nil || len(object) <= *s.MaxProperties, func() jsonschema.ErrorKind { return &kind.MaxProperties{Got: len(object), Want: *s.MaxProperties} })
	c.required(object)
	if !c.dependencies(object) || !c.members(object) {
		return false
	}
	if s.PropertyNames != nil {
		for name := range object {
			if !c.and(c.fits(s.PropertyNames, name, nil)) {
				return false
			}
		}
	}
	return c.and(true)
}

// members compares all members with the schemas for their names.
func (c *comparison) members(object map[string]any) bool {
	s := c.schema
	if len(s.Properties)+len(s.PatternProperties) == 0 && s.AdditionalProperties == nil {
		return true
	}
	c.spend(len(object) / 4)
	var additional []string
	for name, v := range object {
		evaluated := c.named(name, v)
		if no, is := s.AdditionalProperties.(bool); is && !no && !evaluated {
			additional = append(additional, name)
		}
		if evaluated || s.AdditionalProperties != nil {
			c.rest.deleteMember(name)
		}
		if !c.and(true) {
			return false
		}
	}
	slices.Sort(additional)
	c.check(additional == nil, func() jsonschema.ErrorKind { return &kind.AdditionalProperties{Properties: additional} })
	return c.and(true)
}

// named compares a member with the schemas for its name, and reports whether there are any
// besides additionalProperties.
func (c *comparison) named(name string, v any) (evaluated bool) {
	s := c.schema
	if property, ok := s.Properties[name]; ok {
		evaluated = true
		c.and(c.fitsMember(property, name, v))
	}
	for re, property := range s.PatternProperties {
		if c.finds(re, name) {
			evaluated = true
			if _, unknown := re.(anything); !unknown { // else it may be for other names
				c.and(c.fitsMember(property, name, v))
			}
		}
	}
	if additional, ok := s.AdditionalProperties.(*jsonschema.Schema); ok && !evaluated {
		c.and(c.fitsMember(additional, name, v))
	}
	return evaluated
}

// dependencies compares an object with the demands of the members that are present.
func (c *comparison) dependencies(object map[string]any) bool {
	s := c.schema
	has := func(name string) bool {
		c.spend(1)
		_, ok := object[name]
		return ok
	}
	for name, dependency := range s.Dependencies {
		if !has(name) {
			continue
		}
		switch dependency := dependency.(type) {
		case []string:
			missing := c.missing(object, dependency)
			c.check(missing == nil, func() jsonschema.ErrorKind { return &kind.Dependency{Prop: name, Missing: missing} })
		case *jsonschema.Schema:
			c.and(c.fits(dependency, object, c.rest))
		}
	}
	for name, part := range s.DependentSchemas {
		if has(name) {
			c.and(c.fits(part, object, c.rest))
		}
	}
	for name, required := range s.DependentRequired {
		if has(name) {
			missing := c.missing(object, required)
			c.check(missing == nil, func() jsonschema.ErrorKind { return &kind.DependentRequired{Prop: name, Missing: missing} })
		}
	}
	return c.and(true)
}

func (c *comparison) array(items []any) bool {
	s := c.schema
	c.check(s.MinItems == nil || len(items) >= *s.MinItems, func() jsonschema.ErrorKind { return &kind.MinItems{Got: len(items), Want: *s.MinItems} })
	c.check(s.MaxItems == nil || len(items) <= *s.MaxItems, func() jsonschema.ErrorKind { return &kind.MaxItems{Got: len(items), Want: *s.MaxItems} })
	if s.UniqueItems && len(items) > 1 {
		i, j := c.duplicates(items)
		c.check(i < 0, func() jsonschema.ErrorKind { return &kind.UniqueItems{Duplicates: [2]int{i, j}} })
	}
	first, others := itemSchemas(s)
	for i, item := range items {
		one := others
		if i < len(first) {
			one = first[i]
		} else if others == nil {
			break // no schema for this item and those after it
		}
		if !c.and(c.fitsItem(one, i, item)) {
			return false
		}
	}
	if more, is := s.AdditionalItems.(bool); is && !more && s.DraftVersion < 2020 && len(items) > len(first) {
		c.check(false, func() jsonschema.ErrorKind { return &kind.AdditionalItems{Count: len(items) - len(first)} })
	}
	if s.Contains != nil {
		c.contains(items)
	}
	return c.and(true)
}

// contains compares the items with the schema of which some have to be.
func (c *comparison) contains(items []any) bool {
	s := c.schema
	before := len(c.faults)
	var matched []int
	for i, item := range items {
		if c.fitsItem(s.Contains, i, item) {
			matched = append(matched, i)
			if s.DraftVersion >= 2020 {
				c.rest.deleteItem(i)
			}
		}
	}
	few := len(matched) == 0
	if s.MinContains != nil {
		few = len(matched) < *s.MinContains
	}
	switch {
	case few && len(matched) < len(items): // the faults of the other items stand
		c.failed = true
	case few && s.MinContains != nil:
		c.check(false, func() jsonschema.ErrorKind { return &kind.MinContains{Got: matched, Want: *s.MinContains} })
	case few:
		c.check(false, func() jsonschema.ErrorKind { return &kind.Contains{} })
	default:
		c.faults = c.faults[:before]
	}
	c.check(s.MaxContains == nil || len(matched) <= *s.MaxContains, func() jsonschema.ErrorKind { return &kind.MaxContains{Got: matched, Want: *s.MaxContains} })
	return c.and(true)
}

func (c *comparison) text(text string) bool {
	s := c.schema
	if s.MinLength != nil || s.MaxLength != nil {
		c.spend(len(text) / 256)
		n := utf8.RuneCountInString(text)
		c.check(s.MinLength == nil || n >= *s.MinLength, func() jsonschema.ErrorKind { return &kind.MinLength{Got: n, Want: *s.MinLength} })
		c.check(s.MaxLength == nil || n <= *s.MaxLength, func() jsonschema.ErrorKind { return &kind.MaxLength{Got: n, Want: *s.MaxLength} })
	}
	if s.Pattern != nil {
		c.check(c.finds(s.Pattern, text), func() jsonschema.ErrorKind { return &kind.Pattern{Got: text, Want: s.Pattern.String()} })
	}
	return c.and(true)
}

func (c *comparison) number(n json.Number) bool {
	s := c.schema
	if s.Minimum == nil && s.Maximum == nil && s.ExclusiveMinimum == nil && s.ExclusiveMaximum == nil && s.MultipleOf == nil {
		return true
	}
	x := c.rational(n)
	c.check(s.Minimum == nil || x.Cmp(s.Minimum) >= 0, func() jsonschema.ErrorKind { return &kind.Minimum{Got: x, Want: s.Minimum} })
	c.check(s.Maximum == nil || x.Cmp(s.Maximum) <= 0, func() jsonschema.ErrorKind { return &kind.Maximum{Got: x, Want: s.Maximum} })
	c.check(s.ExclusiveMinimum == nil || x.Cmp(s.ExclusiveMinimum) > 0, func() jsonschema.ErrorKind { return &kind.ExclusiveMinimum{Got: x, Want: s.ExclusiveMinimum} })
	c.check(s.ExclusiveMaximum == nil || x.Cmp(s.ExclusiveMaximum) < 0, func() jsonschema.ErrorKind { return &kind.ExclusiveMaximum{Got: x, Want: s.ExclusiveMaximum} })
	if y := s.MultipleOf; y != nil {
		c.spendFor(n)
		c.check(y.Sign() != 0 && new(big.Rat).Quo(x, y).IsInt(), func() jsonschema.ErrorKind { return &kind.MultipleOf{Got: x, Want: y} })
	}
	return c.and(true)
}

// required records one fault for all missing members: those without a default, or those to fill in if each has one.
func (c *comparison) required(object map[string]any) {
	missing, fill := c.missing(object, c.schema.Required), make(defaults)
	needed := slices.DeleteFunc(slices.Clone(missing), func(name string) bool {
		property := c.schema.Properties[name]
		if property == nil || property.Default == nil {
			return false
		}
		fill[name] = *property.Default
		return true
	})
	if missing == nil || c.lenient && len(needed) == 0 {
		return
	}
	if c.failed = true; len(needed) > 0 {
		c.fail(func() jsonschema.ErrorKind { return &kind.Required{Missing: needed} })
	} else {
		c.failAs(fill, func() jsonschema.ErrorKind { return &kind.Required{Missing: missing} })
	}
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

// itemSchemas returns the schemas of the first items, and the schema of the others, which may be nil.
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
