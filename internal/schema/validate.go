package schema

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/mcp-metarouter/metarouter/internal/wire"
)

// The limits of one validation.
const (
	maxMembers                           = 200_000 // JSON values in the value: decoded, each takes up to 400 bytes
	maxFaults                            = 10
	maxFault                             = 4 << 10     // bytes of one fault
	maxGiven, maxDeclared, maxNameLength = 50, 200, 50 // names compared to find a misspelt one: given, declared, and bytes of each

	longValue  = 8 << 10 // bytes from which on a value is abridged to be checked
	longString = 1 << 10
	abridged   = 9 // characters of a string that stands for a long one
)

// Validate returns a sentence for each place where the JSON value does not fit the schema, at most
// 10, with its path below root; no faults if it fits. The faults are excused if the value would fit if members with a default were
// not required. With an error, it is not known whether the value fits: the cause of ctx's end, or one that matches [ErrCostly].
func (s *Schema) Validate(ctx context.Context, root string, value json.RawMessage) (faults []string, excused bool, err error) {
	if s.blind && len(value) > longValue {
		if short := wire.Abridge(value, longString); len(short) < len(value) {
			if wrong, _, err := s.compare(ctx, short); err == nil && wrong == nil {
				return nil, false, nil
			}
		} // else its faults are to be found where they are
	}
	wrong, v, err := s.compare(ctx, value)
	if _, ok := errors.AsType[invalid](err); ok {
		return []string{root + ": " + err.Error()}, false, nil
	}
	if err != nil || wrong == nil {
		return nil, false, err
	}
	for _, f := range s.faults(wrong, maxFaults) {
		faults = append(faults, s.keys.of(f).text(root, s.meant(f, v)))
	}
	return faults, s.isExcused(wrong), nil
}

// invalid is an error for a value that is not JSON.
type invalid struct{ error }

// compare compares the JSON value with the schema, and returns it decoded. wrong is nil if it fits. With an error, it is not known
// whether it does.
func (s *Schema) compare(ctx context.Context, value json.RawMessage) (wrong *jsonschema.ValidationError, v any, err error) {
	if len(value) > maxMembers && wire.Count(value) > maxMembers { // each takes at least a byte and a comma
		return nil, nil, costly("the value has more than %d members and elements", maxMembers)
	}
	if v, err = wire.Decode(value); err != nil {
		return nil, nil, invalid{err}
	}
	m := meter{ctx: ctx, same: s.same, left: maxSteps + min(len(value), maxMore), look: stepsPerLook}
	if m.count(s.root, v, 0, false); m.err != nil {
		return nil, nil, m.err
	}
	wrong, _ = errors.AsType[*jsonschema.ValidationError](s.root.Validate(v))
	return wrong, v, nil
}
