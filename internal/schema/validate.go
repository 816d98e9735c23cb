package schema

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/mcp-metarouter/metarouter/internal/wire"
)

// The limits of one validation.
const (
	maxMembers = 200_000 // JSON values in the value: decoded, each takes up to 400 bytes
	maxSteps   = 500_000 // comparisons with a subschema or of small values; and 4 for each byte of the value
	maxNesting = 5_000   // subschemas within subschemas
	maxFaults  = 10
	maxFault   = 4 << 10 // bytes of one fault
)

// stepsPerLook is how many steps are taken between two looks at the context.
const stepsPerLook = 1 << 10

// Validate returns a sentence for each place where the JSON value does not fit the schema, at most
// 10, with its path below root; no faults if it fits. With an error, it is not known whether the value
// fits: the cause of ctx's end, or one that matches [ErrCostly].
func (s *Schema) Validate(ctx context.Context, root string, value json.RawMessage) (faults []string, err error) {
	e := evaluation{meter: meter{ctx: ctx}, most: maxFaults, lenient: s.lenient}
	if err := e.run(s, value); err != nil {
		if _, ok := errors.AsType[invalid](err); ok {
			return []string{root + ": " + err.Error()}, nil
		}
		return nil, err
	}
	for _, f := range e.faults {
		faults = append(faults, s.keys.of(f).text(root))
	}
	return faults, nil
}

// invalid is an error for a value that is not JSON.
type invalid struct{ error }

// run compares the JSON value with the schema. It returns an error if it is not known whether the
// value fits.
func (e *evaluation) run(s *Schema, value json.RawMessage) (err error) {
	if hasMore(value, maxMembers) {
		return costly("the value has more than %d members and elements", maxMembers)
	}
	v, err := wire.Decode(value)
	if err != nil {
		return invalid{err}
	}
	e.steps, e.look = maxSteps+4*len(value), stepsPerLook
	defer func() {
		switch end := recover().(type) {
		case nil:
		case stopped:
			err = end.err
		default:
			panic(end)
		}
	}()
	e.fits(s.root, v, nil)
	return nil
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

// An evaluation is one comparison of a value with a schema.
type evaluation struct {
	meter
	nesting int
	path    []place // of the value at hand
	quiet   bool    // no faults are wanted
	most    int     // faults that are wanted
	faults  []fault
	lenient bool                 // as of the schema
	repairs bool                 // the faults are to be repaired
	strings [][]place            // with repairs, of the strings where the schema wants strings
	anchors []*jsonschema.Schema // with a dynamic anchor, that are being evaluated
}

// wantsMore reports whether to go on although the value does not fit.
func (e *evaluation) wantsMore() bool { return !e.quiet && len(e.faults) < e.most }

// matches is fits without faults.
func (e *evaluation) matches(s *jsonschema.Schema, v any, rest *unevaluated) bool {
	before := e.quiet
	e.quiet = true
	fits := e.fits(s, v, rest)
	e.quiet = before
	return fits
}

// fits reports whether v fits the schema, and records the faults. It removes the parts that
// the schema evaluates from rest, which may be nil, if v fits.
func (e *evaluation) fits(s *jsonschema.Schema, v any, rest *unevaluated) bool {
	e.spend(1)
	if s.Bool != nil {
		if !*s.Bool {
			e.fail(func() jsonschema.ErrorKind { return &kind.FalseSchema{} })
		}
		return *s.Bool // true evaluates nothing
	}
	if e.nesting++; e.nesting > maxNesting {
		e.stop(costly("it takes subschemas nested too deep for this value"))
	}
	anchors := len(e.anchors)
	if s.DynamicAnchor != "" || s.RecursiveAnchor {
		e.anchors = append(e.anchors, s)
	}
	c := comparison{evaluation: e, schema: s, rest: e.unevaluatedOf(v, s, !rest.isEmpty())}
	fits := e.isAllowed(s, v) && c.keywords(v)
	e.nesting--
	e.anchors = e.anchors[:anchors]
	if fits {
		rest.merge(c.rest)
	}
	return fits
}

// A comparison compares a value with the keywords of a schema, but for the keywords of isAllowed. Its methods
// for kinds of values and keywords report whether to go on.
type comparison struct {
	*evaluation
	schema *jsonschema.Schema
	rest   *unevaluated // of the value; nil if no keyword asks
	failed bool
}

// and notes whether a part fits.
func (c *comparison) and(fits bool) bool {
	c.failed = c.failed || !fits
	return !c.failed || c.wantsMore()
}

// check records a fault if ok is false.
func (c *comparison) check(ok bool, what func() jsonschema.ErrorKind) {
	if !ok {
		c.failed = true
		c.fail(what)
	}
}

// keywords reports whether v fits.
func (c *comparison) keywords(v any) bool {
	s := c.schema
	if s.Ref != nil {
		more := c.and(c.fits(s.Ref, v, c.rest))
		if s.DraftVersion < 2019 || !more {
			return !c.failed // draft 7, 8.3: "All other properties in a "$ref" object MUST be ignored."
		}
	}
	more := true
	switch v := v.(type) {
	case map[string]any:
		more = c.object(v)
	case []any:
		more = c.array(v)
	case string:
		more = c.text(v)
	case json.Number:
		more = c.number(v)
	}
	if more && c.dynamic(v) && c.conditions(v) && c.rest != nil {
		c.unevaluated(v)
	}
	return !c.failed
}

// dynamic compares v with the target of a reference that depends on the way here.
func (c *comparison) dynamic(v any) bool {
	s := c.schema
	if target := s.RecursiveRef; target != nil {
		if target.RecursiveAnchor {
			target = c.outermost(target, func(s *jsonschema.Schema) bool { return s.RecursiveAnchor })
		}
		c.and(c.fits(target, v, c.rest))
	}
	if ref := s.DynamicRef; ref != nil {
		target := ref.Ref
		if ref.Anchor != "" && target.DynamicAnchor == ref.Anchor {
			target = c.outermost(target, func(s *jsonschema.Schema) bool { return s.DynamicAnchor == ref.Anchor })
		}
		c.and(c.fits(target, v, c.rest))
	}
	return c.and(true)
}

// conditions compares v with the schemas that not, allOf, anyOf, oneOf and if combine.
func (c *comparison) conditions(v any) bool {
	s := c.schema
	if s.Not != nil {
		c.check(!c.matches(s.Not, v, c.rest), func() jsonschema.ErrorKind { return &kind.Not{} })
	}
	for _, part := range s.AllOf {
		if !c.and(c.fits(part, v, c.rest)) {
			return false
		}
	}
	if len(s.AnyOf) > 0 && !c.and(c.fitsAny(s.AnyOf, v, c.rest)) || len(s.OneOf) > 0 && !c.and(c.fitsOne(s.OneOf, v, c.rest)) {
		return false
	}
	if s.If != nil {
		then := s.Else
		if c.matches(s.If, v, c.rest) {
			then = s.Then
		}
		c.and(then == nil || c.fits(then, v, c.rest))
	}
	return c.and(true)
}

// isAllowed compares v with the keywords for values of any type.
func (e *evaluation) isAllowed(s *jsonschema.Schema, v any) bool {
	if _, ok := v.(string); ok && e.repairs && !e.quiet && wantsString(s) {
		e.strings = append(e.strings, slices.Clone(e.path))
	}
	if s.Types != nil && !s.Types.IsEmpty() && !e.hasType(*s.Types, v) {
		e.failAs(v, func() jsonschema.ErrorKind { return &kind.Type{Got: typeOf(v), Want: s.Types.ToStrings()} })
		return false
	}
	if s.Const != nil && !e.isOneOf(v, *s.Const) {
		e.failAs(v, func() jsonschema.ErrorKind { return &kind.Const{Got: v, Want: *s.Const} })
		return false
	}
	if s.Enum != nil && !e.isOneOf(v, s.Enum.Values...) {
		e.failAs(v, func() jsonschema.ErrorKind { return &kind.Enum{Got: v, Want: s.Enum.Values} })
		return false
	}
	if s.Format != nil && s.Format.Name != "regex" { // an expression that Go does not know may be right
		if text, ok := v.(string); ok {
			e.spend(len(text) / 16)
		}
		if err := s.Format.Validate(v); err != nil {
			e.fail(func() jsonschema.ErrorKind { return &kind.Format{Got: v, Want: s.Format.Name, Err: err} })
			return false
		}
	}
	return true
}

// outermost returns the first schema under evaluation that is one of these, else the target.
func (e *evaluation) outermost(target *jsonschema.Schema, is func(*jsonschema.Schema) bool) *jsonschema.Schema {
	if i := slices.IndexFunc(e.anchors, is); i >= 0 {
		return e.anchors[i]
	}
	return target
}

// fitsAny reports whether v fits one of the schemas. All of them count for the rest.
func (e *evaluation) fitsAny(all []*jsonschema.Schema, v any, rest *unevaluated) bool {
	before := len(e.faults)
	matched := false
	for _, one := range all {
		if e.fits(one, v, rest) {
			if matched = true; rest.isEmpty() {
				break
			}
		}
	}
	if matched {
		e.faults = e.faults[:before]
	}
	return matched
}

// fitsOne reports whether v fits exactly one of the schemas.
func (e *evaluation) fitsOne(all []*jsonschema.Schema, v any, rest *unevaluated) bool {
	before, first := len(e.faults), -1
	for i, one := range all {
		switch {
		case first < 0:
			if e.fits(one, v, rest) {
				first = i
				e.faults = e.faults[:before]
			}
		case e.matches(one, v, rest):
			e.fail(func() jsonschema.ErrorKind { return &kind.OneOf{Subschemas: []int{first, i}} })
			return false
		}
	}
	return first >= 0
}

var types = func() map[string]jsonschema.Types {
	all := make(map[string]jsonschema.Types)
	for _, name := range []string{"null", "boolean", "number", "integer", "string", "array", "object"} {
		var t jsonschema.Types
		t.Add(name)
		all[name] = t
	}
	return all
}()

func (e *evaluation) hasType(want jsonschema.Types, v any) bool {
	if want&types[typeOf(v)] != 0 {
		return true
	}
	n, ok := v.(json.Number)
	return ok && want&types["integer"] != 0 && e.isInteger(n)
}

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
