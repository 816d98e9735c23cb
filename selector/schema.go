package selector

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.uber.org/zap"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/registry"
)

// schemas compiles each tool's schema once.
type schemas struct {
	log      *zap.Logger
	compiled sync.Map // tool ID -> *compiledSchema
}

type compiledSchema struct {
	tool   *registry.NormalizedTool // of which this is the schema
	schema *jsonschema.Schema       // nil if it can't be compiled: it then validates nothing
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
	s := &compiledSchema{t, schema}
	c.compiled.Store(t.ID, s)
	return s
}

// noNetwork refuses every reference out of the schema.
type noNetwork struct{}

func (noNetwork) Load(url string) (any, error) {
	return nil, errors.New("references out of the schema are not followed")
}

// pattern compiles a regular expression. What Go's engine does not know, such as
// a look-ahead, matches everything: the server will look at it.
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
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(args))
	if err != nil {
		return []string{"arguments: " + err.Error()}
	}
	var invalid *jsonschema.ValidationError
	if err := s.schema.Validate(v); !errors.As(err, &invalid) {
		return nil
	}
	return faults(invalid, nil)
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

// repair returns arguments that fit where those given do not, and what was done
// to them: models send arguments nested one level too deep, or as a string.
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

// namesTool are the members beside which models nest the arguments: they only
// say again which tool is meant. Beside any other, nothing is taken apart.
var namesTool = map[string]bool{"name": true, "tool": true, "tool_name": true}
