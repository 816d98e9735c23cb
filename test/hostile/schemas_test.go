//go:build linux

package hostile

import (
	"fmt"
	"strings"
)

// schemas attack the validation of arguments.
func schemas() map[string]kind {
	return map[string]kind{
		"schema doubled by allOf":            schemaOf(doubled("allOf", "$ref", "#/$defs/a"), nil, noBudget...),
		"schema doubled by anyOf":            schemaOf(doubled("anyOf", "$ref", "#/$defs/a"), nil, noBudget...),
		"schema doubled by oneOf":            schemaOf(doubled("oneOf", "$ref", "#/$defs/a"), nil, noBudget...),
		"schema doubled by $dynamicRef":      schemaOf(doubled("allOf", "$dynamicRef", "#a"), nil, noBudget...),
		"schema doubled by if":               schemaOf(doubledByIf(), nil, noBudget...),
		"schema doubled by properties":       schemaOf(doubledByProperties(), deepArgument),
		"schema that refers to itself":       schemaOf(`{"type":"object","allOf":[{"$ref":"#"}]}`, nil, noBudget...),
		"schema with a regular expression":   schemaOf(`{"type":"object","properties":{"a":{"type":"string","pattern":"^(([a-z])+.)+[A-Z]([a-z])+$"}}}`, longArgument),
		"schema with a huge pattern":         schemaOf(`{"type":"object","properties":{"a":{"type":"string","pattern":"`+nested("(", 7, "a", "{1,9})")+`"}}}`, longArgument),
		"schema with uniqueItems":            schemaOf(`{"type":"object","properties":{"a":{"type":"array","uniqueItems":true}}}`, manyItems),
		"schema with uniqueItems of objects": schemaOf(`{"type":"object","properties":{"a":{"type":"array","uniqueItems":true}}}`, manyObjects),
		"schema with 2,000 patternProperties": schemaOf(`{"type":"object","patternProperties":{`+strings.TrimSuffix(series(2000, `"^(a|b%d)+$":{"type":"string"},`), ",")+`}}`,
			manyMembers),
		"schema of 8 MB": {play: func(p *player) {
			p.tools = tool(`{"type":"object","properties":{"a":{"enum":["` + strings.Repeat("x", 8<<20) + `"]}}}`)
		}, named: []string{"doctor: "}},
		"schema with 100,000 enum values": schemaOf(`{"type":"object","properties":{"a":{"enum":[`+series(100_000, `"value %d",`)+`0]}}}`, nil, "doctor: "),
		"schema with 100,000 failures":    schemaOf(`{"type":"object","properties":{"a":{"type":"array","items":{"type":"string","minLength":3}}}}`, manyItems),
		"schema nested 100,000 deep":      schemaOf(nested(`{"type":"object","properties":{"a":`, 50_000, "{}", "}}"), nil, "doctor: "),
		"schema with $ref to a device":    schemaOf(`{"type":"object","properties":{"a":{"$ref":"file:///dev/zero"}}}`, nil, "doctor: ", "log: "),
		"schema with $ref to an address":  schemaOf(`{"type":"object","properties":{"a":{"$ref":"http://169.254.169.254/latest/meta-data"}}}`, nil, "doctor: ", "log: "),
		"output schema doubled by allOf": {play: func(p *player) {
			p.tools = `{"name":"attack","description":"d","inputSchema":{"type":"object"},"outputSchema":` + doubled("allOf", "$ref", "#/$defs/a") + `}`
			p.onCall(func(m message) { p.result(m, `{"content":[],"structuredContent":{"a":1}}`) })
		}},
		"500 tools with exponential schemas": {entry: map[string]any{"startTimeout": "90s"}, play: func(p *player) {
			schema := doubled("allOf", "$ref", "#/$defs/a")
			for i := range 500 {
				p.tools += fmt.Sprintf(`,{"name":"other%d","inputSchema":%s}`, i, schema)
			}
		}, named: noBudget},
	}
}

// noBudget names a schema that needs more steps than arguments may cost.
var noBudget = []string{"not validated, since"}

func schemaOf(schema string, args func() string, named ...string) kind {
	return kind{play: func(p *player) { p.tools = tool(schema) }, args: args, named: named}
}

// doubled returns a schema of 2 KB with 2^30 paths: each of $defs combines two of the next.
func doubled(combine, ref, to string) string {
	var b strings.Builder
	b.WriteString(`{"type":"object","` + combine + `":[{"` + ref + `":"` + to + `0"}],"$defs":{`)
	for i := range 30 {
		fmt.Fprintf(&b, `"a%d":{"$dynamicAnchor":"a%d",%q:[{%q:"%s%d"},{%q:"%s%d"}]},`, i, i, combine, ref, to, i+1, ref, to, i+1)
	}
	b.WriteString(`"a30":{"$dynamicAnchor":"a30","required":["x"]}}}`)
	return b.String()
}

func doubledByIf() string {
	var b strings.Builder
	b.WriteString(`{"type":"object","$ref":"#/$defs/a0","$defs":{`)
	for i := range 30 {
		fmt.Fprintf(&b, `"a%d":{"if":{"$ref":"#/$defs/a%d"},"then":{"$ref":"#/$defs/a%[2]d"},"else":{"$ref":"#/$defs/a%[2]d"}},`, i, i+1)
	}
	b.WriteString(`"a30":{"required":["x"]}}}`)
	return b.String()
}

func doubledByProperties() string {
	return `{"type":"object","$ref":"#/$defs/a","$defs":{"a":{"properties":{"a":{"anyOf":[{"$ref":"#/$defs/a"},{"$ref":"#/$defs/a"},{"$ref":"#/$defs/a"}]}},"required":["b"]}}}`
}

// series returns a format with the numbers from 0 on.
func series(n int, format string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

func deepArgument() string { return nested(`{"a":`, 60, `{}`, `}`) }
func longArgument() string { return `{"a":"` + strings.Repeat("a", 1<<20) + `!"}` }
func manyItems() string    { return `{"a":[` + series(100_000, `%d,`) + `-1]}` }
func manyObjects() string  { return `{"a":[` + series(20_000, `{"n":%d,"m":[1,2]},`) + `{}]}` }
func manyMembers() string  { return `{` + series(20_000, `"ab%d":"x",`) + `"a":1}` }
