package schema

import "github.com/santhosh-tekuri/jsonschema/v6"

// unevaluated are the members or items of a value that no keyword has evaluated yet, for
// unevaluatedProperties and unevaluatedItems. Nil has no values.
type unevaluated struct {
	members map[string]bool
	items   map[int]bool
}

// unevaluatedOf returns the parts of v that are unevaluated before the schema is, if that schema or
// its caller needs them.
func (e *evaluation) unevaluatedOf(v any, s *jsonschema.Schema, needed bool) *unevaluated {
	switch v := v.(type) {
	case map[string]any:
		if s.AdditionalProperties != nil || !needed && s.UnevaluatedProperties == nil {
			return nil
		}
		e.spend(len(v))
		u := &unevaluated{members: make(map[string]bool, len(v))}
		for name := range v {
			u.members[name] = true
		}
		return u
	case []any:
		first, others := itemSchemas(s)
		if others != nil || s.DraftVersion < 2020 && s.AdditionalItems != nil || !needed && s.UnevaluatedItems == nil || len(first) >= len(v) {
			return nil
		}
		e.spend(len(v))
		u := &unevaluated{items: make(map[int]bool, len(v))}
		for i := len(first); i < len(v); i++ {
			u.items[i] = true
		}
		return u
	}
	return nil
}

// isEmpty reports whether all is evaluated.
func (u *unevaluated) isEmpty() bool { return u == nil || len(u.members)+len(u.items) == 0 }

func (u *unevaluated) deleteMember(name string) {
	if u != nil {
		delete(u.members, name)
	}
}

func (u *unevaluated) deleteItem(i int) {
	if u != nil {
		delete(u.items, i)
	}
}

// merge removes all that is not in other, where it was evaluated.
func (u *unevaluated) merge(other *unevaluated) {
	if u == nil {
		return
	}
	if other == nil {
		other = &unevaluated{}
	}
	for name := range u.members {
		if !other.members[name] {
			delete(u.members, name)
		}
	}
	for i := range u.items {
		if !other.items[i] {
			delete(u.items, i)
		}
	}
}

// unevaluated compares all that is unevaluated with the schemas for it.
func (c *comparison) unevaluated(v any) bool {
	s := c.schema
	if object, ok := v.(map[string]any); ok && s.UnevaluatedProperties != nil {
		for name := range c.rest.members {
			if !c.and(c.fitsMember(s.UnevaluatedProperties, name, object[name])) {
				return false
			}
		}
		c.rest.members = nil
	}
	if items, ok := v.([]any); ok && s.UnevaluatedItems != nil {
		for i := range c.rest.items {
			if !c.and(c.fitsItem(s.UnevaluatedItems, i, items[i])) {
				return false
			}
		}
		c.rest.items = nil
	}
	return c.and(true)
}
