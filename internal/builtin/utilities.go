package builtin

import (
	"context"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func newUtilities() *mcp.Server {
	s := newServer("utilities", "Utilities",
		"Small deterministic helpers: convert units, redact personal data, validate JSON against a schema, summarize a text. Nothing leaves this machine.")
	mcp.AddTool(s, unitConvertTool, unitConvert)
	mcp.AddTool(s, piiRedactTool, piiRedact)
	mcp.AddTool(s, jsonschemaValidateTool, jsonschemaValidate)
	mcp.AddTool(s, docSummarizeTool, docSummarize)
	return s
}

// measure is the answer of unit_convert, and its arguments too.
type measure struct {
	Value    float64 `json:"value"`
	FromUnit string  `json:"from_unit"`
	ToUnit   string  `json:"to_unit"`
}

var unitConvertTool = readOnly("unit_convert", "Convert units",
	"Convert a value from one unit of measurement to another: length or distance (mm, cm, m, km, in, ft, yd, mi, nautical miles …), "+
		"temperature (Celsius, Fahrenheit, Kelvin, Rankine) or mass and weight (mg, g, kg, t, oz, lb, st …). "+
		"Units go by symbol or by name, singular or plural.",
	`{
	"type": "object",
	"properties": {
		"value": {"type": "number", "description": "The number to convert."},
		"from_unit": {"type": "string", "description": "The unit of value, such as \"mi\", \"feet\", \"°F\" or \"kilograms\"."},
		"to_unit": {"type": "string", "description": "The unit to convert to, of the same dimension, such as \"km\"."}
	},
	"required": ["value", "from_unit", "to_unit"],
	"additionalProperties": false
}`, `{
	"type": "object",
	"properties": {
		"value": {"type": "number", "description": "The converted value, in to_unit."},
		"from_unit": {"type": "string", "description": "from_unit as given."},
		"to_unit": {"type": "string", "description": "to_unit as given."}
	},
	"required": ["value", "from_unit", "to_unit"],
	"additionalProperties": false
}`)

func unitConvert(_ context.Context, _ *mcp.CallToolRequest, m measure) (*mcp.CallToolResult, measure, error) {
	v, err := convert(m.Value, m.FromUnit, m.ToUnit)
	return nil, measure{v, m.FromUnit, m.ToUnit}, err
}

type redactArgs struct {
	Text         string `json:"text"`
	RedactEmails bool   `json:"redact_emails"`
	RedactPhones bool   `json:"redact_phones"`
	Replacement  string `json:"replacement"`
}

type redacted struct {
	RedactedText string `json:"redacted_text"`
	Redactions   int    `json:"redactions"`
}

var piiRedactTool = readOnly("pii_redact", "Redact personal data",
	"Redact personally identifiable information (PII) in a text: replace every email address and phone number "+
		"with a placeholder, to anonymize or mask it before it is stored, logged or shared. "+
		"Dates, times, IP addresses, versions and order numbers are left alone.",
	`{
	"type": "object",
	"properties": {
		"text": {"type": "string", "description": "The text to redact."},
		"redact_emails": {"type": "boolean", "default": true, "description": "Whether to replace email addresses."},
		"redact_phones": {"type": "boolean", "default": true, "description": "Whether to replace phone numbers."},
		"replacement": {"type": "string", "default": "[REDACTED]", "description": "What to put in place of each."}
	},
	"required": ["text"],
	"additionalProperties": false
}`, `{
	"type": "object",
	"properties": {
		"redacted_text": {"type": "string", "description": "The text with the replacements made."},
		"redactions": {"type": "integer", "minimum": 0, "description": "How many replacements were made."}
	},
	"required": ["redacted_text", "redactions"],
	"additionalProperties": false
}`)

func piiRedact(_ context.Context, _ *mcp.CallToolRequest, a redactArgs) (*mcp.CallToolResult, redacted, error) {
	text, n := redact(a.Text, a.RedactEmails, a.RedactPhones, a.Replacement)
	return nil, redacted{text, n}, nil
}

type summarizeArgs struct {
	Text         string `json:"text"`
	MaxSentences int    `json:"max_sentences"`
}

type summary struct {
	Summary          string `json:"summary"`
	SummarySentences int    `json:"summary_sentences"`
}

var docSummarizeTool = readOnly("doc_summarize", "Summarize a document",
	"Summarize a document, article or other long text: pick its most important sentences by word frequency "+
		"and return them unchanged, in their original order (extractive summary, TL;DR). "+
		"Deterministic, without a language model. An empty text has an empty summary.",
	`{
	"type": "object",
	"properties": {
		"text": {"type": "string", "description": "The text to summarize."},
		"max_sentences": {"type": "integer", "minimum": 1, "maximum": 1000000, "default": 3, "description": "How many sentences the summary may have at most."}
	},
	"required": ["text"],
	"additionalProperties": false
}`, `{
	"type": "object",
	"properties": {
		"summary": {"type": "string", "description": "The chosen sentences, joined by spaces."},
		"summary_sentences": {"type": "integer", "minimum": 0, "description": "How many sentences the summary has."}
	},
	"required": ["summary", "summary_sentences"],
	"additionalProperties": false
}`)

func docSummarize(_ context.Context, _ *mcp.CallToolRequest, a summarizeArgs) (*mcp.CallToolResult, summary, error) {
	text, n := summarize(a.Text, a.MaxSentences)
	return nil, summary{text, n}, nil
}
