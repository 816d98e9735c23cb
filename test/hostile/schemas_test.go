//go:build linux

package hostile

import (
	"fmt"
	"strings"
)

// schemas attack the validation of arguments; internal/execute has more of them.
var schemas = map[string]kind{
	"schema doubled by allOf":    {play: func(p *player) { p.tools = tool(doubled()) }, named: noBudget},
	"schema nested 100,000 deep": {play: func(p *player) { p.tools = tool(nested(`{"type":"object","properties":{"a":`, 50_000, "{}", "}}")) }, named: []string{"doctor: "}},
	"schema with $ref to a device": {play: func(p *player) {
		p.tools = tool(`{"type":"object","properties":{"a":{"$ref":"file:///dev/zero"},"b":{"$ref":"http://169.254.169.254/latest/meta-data"}}}`)
	}, named: []string{"doctor: ", "log: "}},
	"schema with a regular expression": {play: func(p *player) {
		p.tools = tool(`{"type":"object","properties":{"a":{"type":"string","pattern":"^(([a-z])+.)+[A-Z]([a-z])+$"}}}`)
	}, args: longArgument},
	"500 tools with exponential schemas": {entry: map[string]any{"startTimeout": "90s"}, play: func(p *player) {
		for i := range 500 {
			p.tools += fmt.Sprintf(`,{"name":"other%d","inputSchema":%s}`, i, doubled())
		}
	}, named: noBudget},
}

// noBudget names a schema that needs more steps than arguments may cost.
var noBudget = []string{"not validated, since"}

// doubled returns a schema of 2 KB with 2^30 paths: each of $defs combines two of the next.
func doubled() string {
	var b strings.Builder
	b.WriteString(`{"type":"object","allOf":[{"$ref":"#/$defs/a0"}],"$defs":{`)
	for i := range 30 {
		fmt.Fprintf(&b, `"a%d":{"allOf":[{"$ref":"#/$defs/a%d"},{"$ref":"#/$defs/a%[2]d"}]},`, i, i+1)
	}
	b.WriteString(`"a30":{"required":["x"]}}}`)
	return b.String()
}

// series returns a format with the numbers from 0 on.
func series(n int, format string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

func longArgument() string { return `{"a":"` + strings.Repeat("a", 1<<20) + `!"}` }
