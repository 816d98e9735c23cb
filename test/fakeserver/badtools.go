package fakeserver

import "strings"

// badTools are the definitions that -bad-schemas lists. Each makes some client refuse the
// whole list, refuse the whole request, or panic.
var badTools = []string{
	// The input schema is not the schema of an object.
	`{"name":"no_schema"}`,
	`{"name":"null_schema","inputSchema":null}`,
	`{"name":"boolean_schema","inputSchema":true}`,
	`{"name":"string_schema","inputSchema":"object"}`,
	`{"name":"no_type","inputSchema":{"properties":{"a":{"type":"string"}}}}`,
	`{"name":"array_type","inputSchema":{"type":["object","null"]}}`,
	`{"name":"other_type","inputSchema":{"type":"string"}}`,
	`{"name":"boolean_property","inputSchema":{"type":"object","properties":{"a":true}}}`,
	`{"name":"list_of_properties","inputSchema":{"type":"object","properties":["a"]}}`,
	`{"name":"required_not_list","inputSchema":{"type":"object","required":"a"}}`,

	// A schema that some providers refuse, or that cannot be compiled.
	`{"name":"top_any_of","inputSchema":{"type":"object","anyOf":[{"required":["a"]},{"required":["b"]}]}}`,
	`{"name":"top_one_of","inputSchema":{"type":"object","oneOf":[{"required":["a"]},{"required":["b"]}]}}`,
	`{"name":"top_all_of","inputSchema":{"type":"object","allOf":[{"required":["a"]}]}}`,
	`{"name":"missing_ref","inputSchema":{"type":"object","properties":{"a":{"$ref":"#/$defs/nowhere"}}}}`,
	`{"name":"network_ref","inputSchema":{"type":"object","properties":{"a":{"$ref":"https://example.invalid/a.json"}}}}`,
	`{"name":"recursive_ref","inputSchema":{"type":"object","properties":{"a":{"$ref":"#"}}}}`,
	`{"name":"bad_pattern","inputSchema":{"type":"object","properties":{"a":{"type":"string","pattern":"(?<=x)("}}}}`,
	`{"name":"look_ahead","inputSchema":{"type":"object","properties":{"a":{"type":"string","pattern":"^(?!-)[a-z-]+$"}}}}`,
	`{"name":"any_type","inputSchema":{"type":"object","properties":{"a":{"type":"any"},"b":{"type":null}}}}`,
	`{"name":"unknown_dialect","inputSchema":{"$schema":"https://example.invalid/dialect","type":"object"}}`,
	`{"name":"bad_header","inputSchema":{"type":"object","properties":{"a":{"type":"string","x-mcp-header":"not a header\n"}}}}`,
	`{"name":"deep_schema","inputSchema":` + strings.Repeat(`{"type":"object","properties":{"a":`, 500) + `{}` + strings.Repeat(`}}`, 500) + `}`,

	// Other members of the wrong type.
	`{"name":"null_description","description":null,"inputSchema":{"type":"object"}}`,
	`{"name":"number_description","description":7,"inputSchema":{"type":"object"}}`,
	`{"name":"number_title","title":7,"inputSchema":{"type":"object"}}`,
	`{"name":"string_annotations","annotations":"safe","inputSchema":{"type":"object"}}`,
	`{"name":"array_output","inputSchema":{"type":"object"},"outputSchema":{"type":"array","items":{"type":"string"}}}`,
	`{"name":"boolean_output","inputSchema":{"type":"object"},"outputSchema":true}`,
	`{"name":"long_description","description":"` + strings.Repeat("long ", 4000) + `","inputSchema":{"type":"object"}}`,

	// Names.
	`{"description":"no name","inputSchema":{"type":"object"}}`,
	`{"name":"","inputSchema":{"type":"object"}}`,
	`{"name":null,"inputSchema":{"type":"object"}}`,
	`{"name":7,"inputSchema":{"type":"object"}}`,
	`{"name":"spaces and ünïcode","inputSchema":{"type":"object"}}`,
	`{"name":"dotted.and/slashed","inputSchema":{"type":"object"}}`,
	`{"name":"double__underscore","inputSchema":{"type":"object"}}`,
	`{"name":"` + strings.Repeat("long_name_", 20) + `","inputSchema":{"type":"object"}}`,

	// The definition is not an object.
	`null`, `7`, `"text"`, `["name","list"]`,
}
