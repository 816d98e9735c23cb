package execute

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/internal/approval"
	"github.com/mcp-metarouter/metarouter/internal/prose"
	"github.com/mcp-metarouter/metarouter/internal/schema"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/registry"
)

// Checked are arguments that were compared with a tool's schema. They fit it if there are no
// Faults: a comparison that was given up has not passed, so it has one, too.
type Checked struct {
	Arguments json.RawMessage // repaired, where that makes them fit
	Sent      json.RawMessage // as the server gets them: Arguments with its own keys, and those that a profile fixes
	Faults    []string        // a sentence for each place where they do not fit
	Unchecked bool            // it is not known whether they fit, and the only one of Faults says why
	Repaired  string          // the repairs of the arguments; may be ""

	tool    *registry.NormalizedTool
	partial bool // a part of the schema can't be compared
	refused bool // they can't be sent, whatever the schema says: a profile does not allow them, or their keys can't be renamed
}

// Check compares arguments with the tool's schema. It gives up where that takes too long, if the schema can't be compiled, and when ctx ends.
func (e *Executor) Check(ctx context.Context, t *registry.NormalizedTool, args json.RawMessage) Checked {
	schema := e.schemas.of(t)
	c := unchecked(t, schema, args)
	if c.refused {
		return c
	}
	c.partial = schema.schema != nil && schema.schema.IsPartial()
	excused := false
	if wire.IsObject(c.Arguments) {
		faults, may, err := schema.check(ctx, c.Sent)
		c.compared(faults, err)
		excused = may
	} else {
		c.compared([]string{"arguments: expected an object"}, nil)
	}
	if len(c.Faults) > 0 && !c.Unchecked {
		if fixed, how := schema.repair(ctx, t, c.Arguments); how != "" {
			c.Arguments, _ = schema.keys.Shown(schema.names, fixed) // with the server's keys they mean the same
			c.Sent, c.Repaired = withFixed(t, fixed), how
			c.compared(nil, schema.err)
		} else if excused { // a default may not fit, and then the server knows its meaning
			c.compared(nil, nil)
		}
	}
	return c
}

// compared sets how the comparison has ended: with faults, or because of err, with which it was given up.
func (c *Checked) compared(faults []string, err error) {
	if c.Faults, c.Unchecked = faults, err != nil; err != nil {
		c.Faults = []string{"arguments: it is not known whether they fit: " + err.Error()}
	}
}

// passed reports whether the arguments were compared with the whole schema, and fit it.
func (c *Checked) passed() bool { return !c.Unchecked && !c.partial && len(c.Faults) == 0 }

// unchecked returns arguments that were not compared with the tool's schema. Its faults are
// faults of arguments that a profile fixes, or that their keys can't be renamed.
func unchecked(t *registry.NormalizedTool, s *compiledSchema, args json.RawMessage) Checked {
	args = orEmpty(args)
	c := Checked{Arguments: args, Unchecked: true, tool: t}
	var err error
	if c.Sent, err = s.own(args); err != nil {
		c.Faults, c.refused, c.Unchecked = []string{"arguments: " + err.Error()}, true, false
		return c
	}
	if t.Fixed != nil && wire.IsObject(args) {
		c.Faults, c.Sent = refusals(t, c.Sent), withFixed(t, c.Sent)
		c.refused = len(c.Faults) > 0
		c.Unchecked = !c.refused
	}
	return c
}

// orEmpty returns the arguments, {} without any.
func orEmpty(args json.RawMessage) json.RawMessage {
	if args = bytes.TrimSpace(args); len(args) == 0 || string(args) == "null" {
		return json.RawMessage("{}")
	}
	return args
}

// schemas compiles each tool's schema once.
type schemas struct {
	log      *zap.Logger
	registry *registry.Registry
	large    chan struct{} // holds an item for each large value that is being compared
	compiled sync.Map      // tool ID -> *compiledSchema
	version  atomic.Uint64 // of the catalog whose tools compiled was last compared with
}

const (
	// largeArguments is from how many bytes on arguments wait for others to be compared, of
	// which there are maxLarge at a time: as values they take up to 60 times their bytes.
	largeArguments = 64 << 10
	maxLarge       = 4
)

func newSchemas(o Options) schemas {
	return schemas{log: o.Log, registry: o.Registry, large: make(chan struct{}, maxLarge)}
}

type compiledSchema struct {
	tool    string          // the ID of the tool that has it
	source  json.RawMessage // the schema
	keys    schema.Keys
	all     *schemas
	compile sync.Once      // for the fields below
	schema  *schema.Schema // nil if it cannot be compiled
	names   *schema.Schema // the same, or its outline
	err     error          // that no arguments can be checked; nil if there is a schema
	costly  sync.Once      // to log that a validation took too many steps
}

// of returns the compiled schema of the tool's server, which the tools that profiles make of
// one tool have in common. After a change of the catalog it drops the schemas of tools that are gone.
func (c *schemas) of(t *registry.NormalizedTool) *compiledSchema {
	if now := c.registry.Snapshot(); c.version.Swap(now.Version) != now.Version {
		c.compiled.Range(func(id, _ any) bool {
			if _, listed := now.Tool(id.(string)); !listed {
				c.compiled.Delete(id)
			}
			return true
		})
	}
	source := t.ArgumentSchema()
	known, ok := c.compiled.Load(t.ID)
	if s, _ := known.(*compiledSchema); ok && bytes.Equal(s.source, source) { // bytes in one place are not compared
		s.compile.Do(s.build)
		return s
	}
	if s := (&compiledSchema{tool: t.ID, source: source, keys: schema.NewKeys(t.Keys), all: c}); ok {
		c.compiled.CompareAndSwap(t.ID, known, s)
	} else {
		c.compiled.LoadOrStore(t.ID, s)
	}
	return c.of(t) // finds it, or the one of another call that was first
}

// build compiles the schema.
func (s *compiledSchema) build() {
	compiled, err := schema.Compile(s.source)
	if err != nil {
		s.all.log.Warn("can't compile the schema; arguments are not validated", zap.String("tool", s.tool), zap.Error(err))
		s.err, s.names = errUncompiled, schema.Outline(s.source)
		return
	}
	s.schema = compiled.With(s.keys)
	s.names = s.schema
}

// own returns the arguments with the server's own keys.
func (s *compiledSchema) own(args json.RawMessage) (json.RawMessage, error) {
	return s.keys.Own(s.names, args)
}

// errUncompiled is the reason for not checking arguments that the log says more about.
var errUncompiled = errors.New("the tool's schema can't be compiled")

// check returns the faults of the arguments, a sentence for each with its path; nil if they fit. They are excused if only members with a default are
// missing. With an error, it is not known whether they fit.
func (s *compiledSchema) check(ctx context.Context, args json.RawMessage) (faults []string, excused bool, err error) {
	if s.schema == nil {
		return nil, false, s.err
	}
	leave, err := s.enter(ctx, args)
	if err != nil {
		return nil, false, err
	}
	defer leave()
	faults, excused, err = s.schema.Validate(ctx, "arguments", args)
	if errors.Is(err, schema.ErrCostly) {
		s.costly.Do(func() {
			s.all.log.Warn("can't validate arguments; the server gets them as they are", zap.String("tool", s.tool), zap.Error(err))
		})
	}
	return faults, excused, err
}

// repair returns arguments that fit the tool, with its server's keys, and their repairs, if those given can be repaired without a guess: models send
// all arguments, or values, as strings of JSON (see [schema.Schema.Repair]), [session.GeminiArgument], and for tools that only read, all arguments in
// one member that the tool does not declare. Required members with a default that are left out get it. No value of a declared member changes.
func (s *compiledSchema) repair(ctx context.Context, t *registry.NormalizedTool, args json.RawMessage) (fixed json.RawMessage, how string) {
	given := args
	fits := func(candidate json.RawMessage, change string) bool {
		for range 2 {
			var err error
			if candidate, err = s.own(candidate); err != nil || !wire.IsObject(candidate) || !wire.Valid(candidate) || len(refusals(t, candidate)) > 0 || agrees(given, candidate) {
				return false
			}
			if change != "" { // else they are as given, and were compared before
				faults, _, err := s.check(ctx, withFixed(t, candidate))
				if len(faults) == 0 && (err == nil || s.schema == nil) {
					fixed, how = candidate, change
					return true
				}
			}
			values := ""
			if candidate, values = s.repairValues(ctx, candidate); values == "" {
				return false
			}
			for _, name := range wire.Keys(t.Fixed) { // its default may have been filled in
				candidate = wire.DeleteMember(candidate, name)
			}
			change = prose.Clauses(change, values)
		}
		return false
	}
	if text, ok := wire.String(bytes.TrimSpace(args)); ok {
		args = json.RawMessage(text)
		if fits(args, "the arguments were a string of JSON") {
			return fixed, how
		}
	} else if fits(args, "") {
		return fixed, how
	}
	its := wire.Member(wire.Member(s.source, "properties"), session.GeminiArgument)
	if less := json.RawMessage(wire.DeleteMember(args, session.GeminiArgument)); its == nil && len(less) < len(args) {
		if fits(less, fmt.Sprintf("the argument %q was left out", session.GeminiArgument)) {
			return fixed, how
		}
		args = less
	}
	if name, wrapped := s.wrapped(t, args); name != "" && fits(wrapped, fmt.Sprintf("the arguments were nested in %q", name)) {
		return fixed, how
	}
	return nil, ""
}

// repairValues does the same as [schema.Schema.Repair].
func (s *compiledSchema) repairValues(ctx context.Context, args json.RawMessage) (repaired json.RawMessage, how string) {
	if s.schema == nil {
		return args, ""
	}
	leave, err := s.enter(ctx, args)
	if err != nil {
		return args, ""
	}
	defer leave()
	return s.schema.Repair(ctx, args)
}

// enter waits until large arguments may be decoded. After an error, leave must not be called.
func (s *compiledSchema) enter(ctx context.Context, args json.RawMessage) (leave func(), err error) {
	if len(args) <= largeArguments {
		return func() {}, nil
	}
	select {
	case s.all.large <- struct{}{}:
		return func() { <-s.all.large }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// wrapped returns the only member of the arguments of a tool that only reads, if the tool does not declare it, and the arguments in
// it, all of which the tool declares; a name "" if it is otherwise.
func (s *compiledSchema) wrapped(t *registry.NormalizedTool, args json.RawMessage) (name string, inner json.RawMessage) {
	properties := wire.Member(s.source, "properties")
	outer := wire.Keys(args)
	if !t.Reads() || len(outer) != 1 || wire.Member(properties, outer[0]) != nil {
		return "", nil
	}
	inner = wire.Member(args, outer[0])
	if text, ok := wire.String(inner); ok {
		inner = json.RawMessage(text)
	}
	inner, err := s.own(inner)
	members := wire.Keys(inner)
	if err != nil || len(members) == 0 || slices.ContainsFunc(members, func(key string) bool { return wire.Member(properties, key) == nil }) {
		return "", nil
	}
	return outer[0], inner
}

// agrees reports whether repaired arguments have a word of agreement that those given lack: only a model or a person may say it.
func agrees(given, repaired json.RawMessage) bool {
	for _, name := range approval.Agreements {
		if now := wire.Member(repaired, name); now != nil && string(now) != "false" && !bytes.Equal(now, wire.Member(given, name)) {
			return true
		}
	}
	return false
}
