package schema

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/message"

	"github.com/mcp-metarouter/metarouter/internal/wire"
)

// The limits of one validation.
const (
	maxMembers = 200_000 // JSON values in the value: decoded, each takes up to 400 bytes
	maxSteps   = 500_000 // comparisons with a subschema or of small values; and 1 for each byte of the value
	maxErrors  = 100_000 // the same to find the faults; the library keeps an error for each comparison that fails
	maxNesting = 20_000  // levels of the value, times subschemas within subschemas for one value
	maxFaults  = 10
	maxFault   = 4 << 10 // bytes of one fault
)

// Validate returns a sentence for each place where the JSON value does not fit the schema, at most
// 10, with its path below root; no faults if it fits. With an error, it is not known whether the value
// fits: the cause of ctx's end, or one that matches [ErrCostly].
func (s *Schema) Validate(ctx context.Context, root string, value json.RawMessage) (faults []string, err error) {
	found, err := s.run(ctx, value, maxFaults, nil)
	if _, ok := errors.AsType[invalid](err); ok {
		return []string{root + ": " + err.Error()}, nil
	}
	for _, f := range found {
		faults = append(faults, s.keys.of(f).text(root))
	}
	return faults, err
}

// invalid is an error for a value that is not JSON.
type invalid struct{ error }

// run compares the JSON value with the schema, and returns as many faults as are wanted. It adds the strings where the
// schema wants strings to texts, which may be nil. With an error, it is not known whether the value fits.
func (s *compiled) run(ctx context.Context, value json.RawMessage, most int, texts map[string]bool) (faults []fault, err error) {
	if hasMore(value, maxMembers) {
		return nil, costly("the value has more than %d members and elements", maxMembers)
	}
	v, err := wire.Decode(value)
	if err != nil {
		return nil, invalid{err}
	}
	levels, digits := measure(v)
	if levels*s.nesting > maxNesting || digits > maxDigits {
		return nil, costly("it takes subschemas nested too deep, or numbers too long, for this value")
	}
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	m := meter{ctx: ctx, steps: maxSteps + len(value), look: stepsPerLook, factor: 1 + digits/64, within: s.meter.within}
	if misfit, err := s.bounded(m, s.inverse, v); err != nil || misfit != nil { // it fits, or nothing is known
		return nil, err
	}
	m.steps, m.texts = maxErrors/(1+levels/16), texts
	misfit, err := s.bounded(m, s.root, v)
	switch {
	case errors.Is(err, ErrCostly):
		return []fault{{kind: somewhere{}}}, nil
	case err != nil || misfit == nil:
		return nil, err
	}
	c := collector{compiled: s, value: v, most: most}
	c.add(misfit)
	return c.faults, nil
}

// bounded returns the error of the library, which can't be stopped but by a panic and knows no context, so a meter counts.
func (s *compiled) bounded(m meter, with *jsonschema.Schema, v any) (misfit *jsonschema.ValidationError, err error) {
	*s.meter = m
	defer func() {
		if end := recover(); end != nil {
			stop, ok := end.(stopped)
			if err = stop.err; !ok {
				err = costly("the library for schemas failed: %v", end)
			}
		}
		s.meter.ctx, s.meter.texts = nil, nil
	}()
	misfit, _ = with.Validate(v).(*jsonschema.ValidationError)
	return misfit, nil
}

// somewhere is the fault of a value that is too large for the library to say where it does not fit.
type somewhere struct{}

// KeywordPath implements [jsonschema.ErrorKind].
func (somewhere) KeywordPath() []string { return nil }

// LocalizedString implements [jsonschema.ErrorKind].
func (somewhere) LocalizedString(*message.Printer) string {
	return "the value does not fit the schema, and is too large to say where; try a smaller one"
}

// hasMore reports whether a JSON value has more than so many values in it.
func hasMore(value []byte, most int) bool {
	if len(value) <= most { // each takes at least a byte and a comma
		return false
	}
	n := 1
	for i := 0; i < len(value) && n <= most; i++ {
		switch value[i] {
		case ',', '{', '[':
			n++
		case '"':
			for i++; i < len(value) && value[i] != '"'; i++ {
				if value[i] == '\\' {
					i++
				}
			}
		}
	}
	return n > most
}

// measure returns how deep a value is nested, and the digits of its longest number; see width.
func measure(v any) (levels, digits int) {
	inner := func(v any) {
		l, d := measure(v)
		levels, digits = max(levels, l), max(digits, d)
	}
	switch v := v.(type) {
	case map[string]any:
		for _, member := range v {
			inner(member)
		}
	case []any:
		for _, item := range v {
			inner(item)
		}
	case json.Number:
		digits = width(v)
	}
	return levels + 1, digits
}

// A collector makes faults of the library's errors.
type collector struct {
	*compiled
	value  any
	most   int
	faults []fault
}

// add adds the errors without causes: the others only say which keywords lead to them.
func (c *collector) add(e *jsonschema.ValidationError) {
	if name, ok := e.ErrorKind.(*kind.PropertyNames); ok { // its path is wrong, and that of its causes is missing
		inner := collector{compiled: c.compiled, value: name.Property, most: 1}
		for _, cause := range e.Causes {
			inner.add(cause)
		}
		for _, f := range inner.faults {
			c.faults = append(c.faults, fault{kind: badName{name, f.kind}})
		}
		return
	}
	for _, cause := range e.Causes {
		if c.add(cause); len(c.faults) >= c.most {
			return
		}
	}
	if len(e.Causes) == 0 {
		c.faults = append(c.faults, c.fault(e))
	}
}

// badName says why the name of a property does not fit.
type badName struct {
	*kind.PropertyNames
	why jsonschema.ErrorKind
}

// LocalizedString implements [jsonschema.ErrorKind].
func (b badName) LocalizedString(p *message.Printer) string {
	return b.PropertyNames.LocalizedString(p) + ": " + b.why.LocalizedString(p)
}

// fault returns the fault of an error without causes.
func (c *collector) fault(e *jsonschema.ValidationError) fault {
	f, v := fault{kind: e.ErrorKind}, c.value
	for _, token := range e.InstanceLocation {
		switch at := v.(type) {
		case map[string]any:
			f.path, v = append(f.path, place{name: token}), at[token]
		case []any:
			i, _ := strconv.Atoi(token)
			f.path, v = append(f.path, place{index: i, item: true}), at[i]
		}
	}
	switch what := f.kind.(type) {
	case *kind.Type, *kind.Const, *kind.Enum:
		f.value = v
	case *kind.AdditionalProperties:
		slices.Sort(what.Properties)
	case *kind.Required:
		f.kind, f.value = c.required(e.SchemaURL, what)
	}
	return f
}

// required returns the fault for missing members: those without a default, or those to fill in if each has one.
func (c *collector) required(url string, all *kind.Required) (jsonschema.ErrorKind, any) {
	fill := make(defaults)
	needed := slices.DeleteFunc(slices.Clone(all.Missing), func(name string) bool {
		s := c.at[url]
		if s == nil || s.Properties[name] == nil || s.Properties[name].Default == nil {
			return false
		}
		fill[name] = *s.Properties[name].Default
		return true
	})
	if len(needed) > 0 {
		return &kind.Required{Missing: needed}, nil
	}
	return all, fill
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

var stringType = func() (t jsonschema.Types) { t.Add("string"); return t }()

// typeOf returns the JSON type of a decoded value.
func typeOf(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case json.Number:
		return "number"
	case string:
		return "string"
	case []any:
		return "array"
	case map[string]any:
		return "object"
	}
	panic(fmt.Sprintf("schema: a value of type %T", v))
}
