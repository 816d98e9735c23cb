package execute

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.uber.org/zap"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/registry"
)

// Checked are arguments that were compared with a tool's schema.
type Checked struct {
	Arguments json.RawMessage // as the server gets them: repaired, where that makes them fit
	Faults    []string        // a sentence for each place where they do not fit
	Repaired  string          // what was done to the arguments; "" if nothing was

	tool *registry.NormalizedTool
	fits bool // there is a schema, and the arguments fit it
}

// Check compares arguments with the tool's schema.
func (e *Executor) Check(t *registry.NormalizedTool, args json.RawMessage) Checked {
	c := Checked{Arguments: orEmpty(args), tool: t}
	schema := e.schemas.of(t)
	if wire.IsObject(c.Arguments) {
		c.Faults = schema.check(c.Arguments)
	} else {
		c.Faults = []string{"arguments: expected an object"}
	}
	if len(c.Faults) > 0 {
		if fixed, how := schema.repair(c.Arguments); how != "" {
			c.Arguments, c.Repaired, c.Faults = fixed, how, nil
		}
	}
	c.fits = len(c.Faults) == 0 && schema.schema != nil
	return c
}

// orEmpty returns the arguments, {} if there are none.
func orEmpty(args json.RawMessage) json.RawMessage {
	if args = bytes.TrimSpace(args); len(args) == 0 || string(args) == "null" {
		return json.RawMessage("{}")
	}
	return args
}

// schemas compiles each tool's schema once.
type schemas struct {
	log      *zap.Logger
	compiled sync.Map // tool ID -> *compiledSchema
}

type compiledSchema struct {
	tool   *registry.NormalizedTool // that has the schema
	schema *jsonschema.Schema       // nil if it cannot be compiled; then it accepts everything
	blind  bool                     // the schema never looks into strings
}

// of returns the tool's compiled schema. Tools are never modified, so an equal
// pointer means an equal schema.
func (c *schemas) of(t *registry.NormalizedTool) *compiledSchema {
	if s, ok := c.compiled.Load(t.ID); ok && s.(*compiledSchema).tool == t {
		return s.(*compiledSchema)
	}
	schema, err := compile(t.InputSchema)
	if err != nil {
		c.log.Warn("can't compile the schema; arguments are not validated", zap.String("tool", t.ID), zap.Error(err))
	}
	s := &compiledSchema{t, schema, isBlind(t.InputSchema)}
	c.compiled.Store(t.ID, s)
	return s
}

// noNetwork refuses every reference out of the schema.
type noNetwork struct{}

func (noNetwork) Load(url string) (any, error) {
	return nil, errors.New("references out of the schema are not followed")
}

// pattern compiles a regular expression. An expression that Go's engine does not know,
// such as a look-ahead, matches everything: the server checks it.
func pattern(expr string) (jsonschema.Regexp, error) {
	if re, err := regexp.Compile(expr); err == nil {
		return re, nil
	}
	return anything(expr), nil
}

type anything string

func (anything) MatchString(string) bool { return true }
func (a anything) String() string        { return string(a) }

// compile compiles a schema of any draft, 2020-12 if it does not say which.
func compile(raw json.RawMessage) (*jsonschema.Schema, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(noNetwork{})
	c.UseRegexpEngine(pattern)
	if err := c.AddResource("tool.json", doc); err != nil {
		return nil, err
	}
	return c.Compile("tool.json")
}

// check returns what is wrong with the arguments, a sentence for each fault
// with its path; none if they fit.
func (s *compiledSchema) check(args json.RawMessage) []string {
	if s.schema == nil {
		return nil
	}
	if s.blind && len(args) > longArguments {
		if short := wire.Abridge(args, longString); len(short) < len(args) && s.validate(short) == nil {
			return nil
		} // else their faults are to be found where they are
	}
	return s.validate(args)
}

// validate is check of all that the arguments hold.
func (s *compiledSchema) validate(args json.RawMessage) []string {
	v, err := wire.Decode(args)
	if err != nil {
		return []string{"arguments: " + err.Error()}
	}
	var invalid *jsonschema.ValidationError
	if err := s.schema.Validate(v); !errors.As(err, &invalid) {
		return nil
	}
	return faults(invalid, nil)
}

const (
	longArguments = 8 << 10 // bytes from which on arguments are abridged to be checked
	longString    = 1 << 10
)

// isBlind reports whether nothing in the schema depends on the content of a long string,
// so that a shorter string may be checked instead. If the shorter one does not fit (as
// with minLength), the string itself is checked.
func isBlind(schema json.RawMessage) bool {
	var v any
	return json.Unmarshal(schema, &v) == nil && !looksIntoStrings(v, false)
}

// looksIntoStrings reports whether a keyword in the schema depends on the content of
// strings. With names, the keys of v are names and not keywords.
func looksIntoStrings(v any, names bool) bool {
	switch v := v.(type) {
	case []any:
		return slices.ContainsFunc(v, func(v any) bool { return looksIntoStrings(v, false) })
	case map[string]any:
		for key, value := range v {
			if names {
				if looksIntoStrings(value, false) {
					return true
				}
				continue
			}
			switch key {
			case "pattern", "maxLength", "format", "contentEncoding", "contentMediaType", "contentSchema":
				return true
			case "enum", "const", "default", "examples", "description", "title":
				continue // values
			}
			if looksIntoStrings(value, namesSchemas[key]) {
				return true
			}
		}
	}
	return false
}

// namesSchemas are the keywords whose value is an object of schemas by name.
var namesSchemas = map[string]bool{
	"properties": true, "patternProperties": true, "dependentSchemas": true, "dependencies": true, "$defs": true, "definitions": true,
}

const maxFaults = 10

var english = message.NewPrinter(language.English)

// faults collects the leaves of a validation error.
func faults(e *jsonschema.ValidationError, found []string) []string {
	if len(e.Causes) == 0 && len(found) < maxFaults {
		path := "arguments"
		if len(e.InstanceLocation) > 0 {
			path += "." + strings.Join(e.InstanceLocation, ".")
		}
		return append(found, fmt.Sprintf("%s: %s", path, e.ErrorKind.LocalizedString(english)))
	}
	for _, cause := range e.Causes {
		found = faults(cause, found)
	}
	return found
}

// repair returns arguments that fit, and what was done to them, if those given can be
// repaired: models send arguments nested one level too deep, or as a string.
func (s *compiledSchema) repair(args json.RawMessage) (fixed json.RawMessage, how string) {
	fits := func(candidate json.RawMessage) bool {
		return wire.IsObject(candidate) && wire.Valid(candidate) && len(s.check(candidate)) == 0
	}
	if text, ok := wire.String(bytes.TrimSpace(args)); ok {
		inner := json.RawMessage(text)
		if fits(inner) {
			return inner, "the arguments were a string of JSON"
		}
		args = inner
	}
	var wrapped json.RawMessage
	name := ""
	lone := true
	wire.Members(args, func(key string, value []byte) bool {
		switch {
		case namesTool[key]:
		case wrapped == nil:
			wrapped, name = value, key
		default:
			lone = false
		}
		return lone
	})
	if text, ok := wire.String(wrapped); ok {
		wrapped = json.RawMessage(text)
	}
	if lone && fits(wrapped) {
		return wrapped, fmt.Sprintf("the arguments were nested in %q", name)
	}
	return nil, ""
}

// namesTool are members that models write next to nested arguments and that only repeat
// the tool. With any other member, arguments count as not nested.
var namesTool = map[string]bool{"name": true, "tool": true, "tool_name": true}
