package schema

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
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
// 10, with its path below root; none if it fits. With an error, it is not known whether the value
// fits: the cause of ctx's end, or one that matches [ErrCostly].
func (s *Schema) Validate(ctx context.Context, root string, value json.RawMessage) (faults []string, err error) {
	e := evaluation{ctx: ctx, most: maxFaults}
	switch err := e.run(s, value); {
	case errors.As(err, new(invalid)):
		return []string{root + ": " + err.Error()}, nil
	case err != nil:
		return nil, err
	}
	for _, f := range e.faults {
		faults = append(faults, f.text(root))
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
	ctx     context.Context
	steps   int // that may still be taken
	look    int // steps until the next look at ctx
	nesting int
	path    []place // of the value at hand
	quiet   bool    // no faults are wanted
	most    int     // faults that are wanted
	faults  []fault
	repairs bool                 // the faults are to be repaired
	strings [][]place            // with repairs, of the strings where the schema wants strings
	anchors []*jsonschema.Schema // with a dynamic anchor, that are being evaluated
}

// stopped is what stop panics with.
type stopped struct{ err error }

// stop ends the evaluation: Validate returns err.
func (e *evaluation) stop(err error) { panic(stopped{err}) }

// spend counts steps, and ends the evaluation if there are none left, or its context has ended.
func (e *evaluation) spend(steps int) {
	e.steps -= steps
	if e.look -= steps; e.look > 0 && e.steps >= 0 {
		return
	}
	if e.steps < 0 {
		e.stop(costly("it takes too many steps for this value"))
	}
	if e.ctx.Err() != nil {
		e.stop(context.Cause(e.ctx))
	}
	e.look = stepsPerLook
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

// fits reports whether v fits the schema, and records the faults. It removes what the schema
// evaluates from rest, which may be nil, if v fits.
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
	own := e.unevaluatedOf(v, s, !rest.isEmpty())
	fits := e.isAllowed(s, v) && e.fitsKeywords(s, v, own)
	e.nesting--
	e.anchors = e.anchors[:anchors]
	if fits {
		rest.merge(own)
	}
	return fits
}

// fitsKeywords compares v with all keywords but those of isAllowed.
func (e *evaluation) fitsKeywords(s *jsonschema.Schema, v any, rest *unevaluated) bool {
	a := all{e: e}
	if s.Ref != nil {
		more := a.and(e.fits(s.Ref, v, rest))
		if s.DraftVersion < 2019 || !more {
			return !a.failed // draft 7, 8.3: "All other properties in a "$ref" object MUST be ignored."
		}
	}
	switch v := v.(type) {
	case map[string]any:
		a.and(e.fitsObject(s, v, rest))
	case []any:
		a.and(e.fitsArray(s, v, rest))
	case string:
		a.and(e.fitsString(s, v))
	case json.Number:
		a.and(e.fitsNumber(s, v))
	}
	if !a.and(true) {
		return false
	}
	if !a.and(e.fitsDynamic(s, v, rest)) || !a.and(e.fitsConditions(s, v, rest)) {
		return false
	}
	if rest != nil {
		a.and(e.fitsUnevaluated(s, v, rest))
	}
	return !a.failed
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
	if s.Const != nil && !e.equal(v, *s.Const) {
		e.failAs(v, func() jsonschema.ErrorKind { return &kind.Const{Got: v, Want: *s.Const} })
		return false
	}
	if s.Enum != nil && !slices.ContainsFunc(s.Enum.Values, func(one any) bool { return e.equal(v, one) }) {
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

// fitsDynamic compares v with the target of a reference that depends on the way here.
func (e *evaluation) fitsDynamic(s *jsonschema.Schema, v any, rest *unevaluated) bool {
	a := all{e: e}
	if target := s.RecursiveRef; target != nil {
		if target.RecursiveAnchor {
			target = e.outermost(target, func(s *jsonschema.Schema) bool { return s.RecursiveAnchor })
		}
		a.and(e.fits(target, v, rest))
	}
	if ref := s.DynamicRef; ref != nil {
		target := ref.Ref
		if ref.Anchor != "" && target.DynamicAnchor == ref.Anchor {
			target = e.outermost(target, func(s *jsonschema.Schema) bool { return s.DynamicAnchor == ref.Anchor })
		}
		a.and(e.fits(target, v, rest))
	}
	return !a.failed
}

// outermost returns the first schema under evaluation that is one of these, else the target.
func (e *evaluation) outermost(target *jsonschema.Schema, is func(*jsonschema.Schema) bool) *jsonschema.Schema {
	if i := slices.IndexFunc(e.anchors, is); i >= 0 {
		return e.anchors[i]
	}
	return target
}

// fitsConditions compares v with the schemas that not, allOf, anyOf, oneOf and if combine.
func (e *evaluation) fitsConditions(s *jsonschema.Schema, v any, rest *unevaluated) bool {
	a := all{e: e}
	if s.Not != nil {
		a.check(!e.matches(s.Not, v, rest), func() jsonschema.ErrorKind { return &kind.Not{} })
	}
	for _, part := range s.AllOf {
		if !a.and(e.fits(part, v, rest)) {
			return false
		}
	}
	if len(s.AnyOf) > 0 && !a.and(e.fitsAny(s.AnyOf, v, rest)) || len(s.OneOf) > 0 && !a.and(e.fitsOne(s.OneOf, v, rest)) {
		return false
	}
	if s.If != nil {
		then := s.Else
		if e.matches(s.If, v, rest) {
			then = s.Then
		}
		a.and(then == nil || e.fits(then, v, rest))
	}
	return !a.failed
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

func sortedKeys(object map[string]any) []string { return slices.Sorted(maps.Keys(object)) }
