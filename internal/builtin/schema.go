package builtin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/mcp-metarouter/metarouter/internal/schema"
	"github.com/mcp-metarouter/metarouter/internal/wire"
)

// maxSchemaErrors is how many errors one validation reports.
const maxSchemaErrors = 100

// validateArgs exists for the SDK only. It decodes numbers as float64, so the handler
// decodes the original arguments again.
type validateArgs struct {
	Schema any `json:"schema"`
	Data   any `json:"data"`
}

type validation struct {
	Valid  bool     `json:"valid"`
	Errors []string `json:"errors"`
}

var jsonschemaValidateTool = readOnly("jsonschema_validate", "Validate JSON against a schema",
	"Validate a JSON value against a JSON Schema (drafts 4, 6, 7, 2019-09 and 2020-12, by $schema; 2020-12 without it) "+
		"and list every violation with its place. A format such as date-time, email, uri, uuid or ipv4 is checked in every draft. "+
		"References to other documents are never fetched: put them under $defs.",
	`{
	"type": "object",
	"properties": {
		"schema": {"type": "object", "description": "The JSON Schema."},
		"data": {"description": "The value to check: any JSON value."}
	},
	"required": ["schema", "data"],
	"additionalProperties": false
}`, `{
	"type": "object",
	"properties": {
		"valid": {"type": "boolean", "description": "Whether the data conforms to the schema."},
		"errors": {"type": "array", "items": {"type": "string"}, "description": "What is wrong, each as \"/path/in/data: what\"; empty if valid."}
	},
	"required": ["valid", "errors"],
	"additionalProperties": false
}`)

func jsonschemaValidate(_ context.Context, req *mcp.CallToolRequest, _ validateArgs) (*mcp.CallToolResult, validation, error) {
	if err := schema.Costly(wire.Member(req.Params.Arguments, "schema")); err != nil { // the library can't be stopped
		return nil, validation{}, fmt.Errorf("%w; validate with a smaller one", err)
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(req.Params.Arguments))
	if err != nil {
		return nil, validation{}, fmt.Errorf("read arguments: %w", err)
	}
	args := v.(map[string]any) // as the input schema says
	result, err := validate(args["schema"], args["data"])
	return nil, result, err
}

// validate checks data against schema. It returns an error if the schema is invalid.
func validate(schema, data any) (validation, error) {
	const location = "mem:///schema"
	compiler := jsonschema.NewCompiler()
	compiler.UseLoader(noLoader{})
	compiler.AssertFormat()
	compiler.RegisterFormat(&jsonschema.Format{Name: "uri", Validate: validateURI})
	if err := compiler.AddResource(location, schema); err != nil {
		return validation{}, fmt.Errorf("read schema: %w", err)
	}
	compiled, err := compiler.Compile(location)
	if err != nil {
		return validation{}, schemaError(err)
	}
	err = compiled.Validate(data)
	if err == nil {
		return validation{Valid: true, Errors: []string{}}, nil
	}
	violation, ok := errors.AsType[*jsonschema.ValidationError](err)
	if !ok {
		return validation{}, fmt.Errorf("validate: %w", err)
	}
	all := explain(violation)
	if more := len(all) - maxSchemaErrors; more > 0 {
		all = append(all[:maxSchemaErrors], fmt.Sprintf("and %d more", more))
	}
	return validation{Errors: all}, nil
}

// schemaError returns an error that says where the schema is invalid.
func schemaError(err error) error {
	if load, ok := errors.AsType[*jsonschema.LoadURLError](err); ok {
		return fmt.Errorf("the schema refers to %s: %w", strings.TrimPrefix(load.URL, "mem:///"), load.Err)
	}
	if invalid, ok := errors.AsType[*jsonschema.SchemaValidationError](err); ok {
		if violation, ok := errors.AsType[*jsonschema.ValidationError](invalid.Err); ok {
			return fmt.Errorf("the schema is not valid: %s", strings.Join(explain(violation), "; "))
		}
	}
	return fmt.Errorf("the schema is not valid: %s", strings.ReplaceAll(err.Error(), "mem:///schema", ""))
}

// explain lists the innermost causes of e as "path: reason". The causes of anyOf and oneOf
// are one item.
func explain(e *jsonschema.ValidationError) []string {
	var causes []string
	for _, cause := range e.Causes {
		causes = append(causes, explain(cause)...)
	}
	what := e.ErrorKind.LocalizedString(message.NewPrinter(language.English))
	switch e.ErrorKind.(type) {
	case *kind.AnyOf, *kind.OneOf:
		if len(causes) > 0 {
			what += " (" + strings.Join(causes, " | ") + ")"
		}
	default:
		if len(causes) > 0 {
			return causes
		}
	}
	return []string{pointer(e.InstanceLocation) + ": " + what}
}

// pointer returns the RFC 6901 JSON pointer of a path, or "(root)".
func pointer(path []string) string {
	if len(path) == 0 {
		return "(root)"
	}
	var b strings.Builder
	for _, token := range path {
		b.WriteString("/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(token))
	}
	return b.String()
}

// validateURI fails for a string that is not an absolute URI of RFC 3986. The library's own check
// lets pass spaces and other characters that a URI never has.
func validateURI(v any) error {
	s, ok := v.(string)
	if !ok {
		return nil
	}
	const others = "-._~:/?#[]@!$&'()*+,;=%"
	for _, r := range s {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
		if !letter && !strings.ContainsRune(others, r) {
			return jsonschema.LocalizableError("character %q is not allowed", r)
		}
	}
	u, err := url.Parse(s)
	switch {
	case err != nil:
		return err
	case !u.IsAbs():
		return jsonschema.LocalizableError("it has no scheme")
	case strings.Contains(u.Hostname(), ":"):
		if ip, err := netip.ParseAddr(u.Hostname()); err != nil || !ip.Is6() || !strings.HasPrefix(u.Host, "[") {
			return jsonschema.LocalizableError("invalid IPv6 address %q", u.Hostname())
		}
	}
	return nil
}

// noLoader keeps $ref from reading files and from the network.
type noLoader struct{}

func (noLoader) Load(string) (any, error) {
	return nil, errors.New("other documents are never fetched; put what is needed under $defs")
}
