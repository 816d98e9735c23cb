package builtin

import (
	"context"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func newUtilities() *mcp.Server {
	s := newServer("utilities", "Utilities",
		"Small deterministic helpers: convert units, validate JSON against a schema. Nothing leaves this machine.")
	mcp.AddTool(s, unitConvertTool, unitConvert)
	mcp.AddTool(s, jsonschemaValidateTool, jsonschemaValidate)
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
