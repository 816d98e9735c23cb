package main

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/terminal"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/toolargs"
	"github.com/mcp-metarouter/metarouter/internal/plain"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/registry"
)

// describeTool prints what a caller of the tool needs to know: what it does, its arguments,
// and a call to copy.
func describeTool(env *environment, t *registry.NormalizedTool) error {
	env.Say("%s", t.ID)
	for _, line := range strings.Split(strings.TrimSpace(plain.Text(t.Description)), "\n") {
		if strings.TrimSpace(line) != "" {
			env.SayBroken("  ", line)
		}
	}
	if len(t.Capabilities) > 0 {
		env.Say("  Tags: %s.", strings.Join(t.Capabilities, ", "))
	}
	if t.Doubt != "" {
		env.SayBroken("  ", "Its server says that it does no harm, but "+t.Doubt+".")
	}
	arguments := argumentRows(t)
	if len(arguments) == 0 {
		env.Say("It takes no arguments.")
	} else {
		env.Say("Arguments:")
		if err := env.PrintRows(arguments, nil); err != nil {
			return err
		}
	}
	env.Say("For example:")
	env.Say("  %s", toolargs.Sample(t, nil))
	return nil
}

// argumentRows returns a row for each argument of the tool, the required ones first.
func argumentRows(t *registry.NormalizedTool) (required []terminal.Row) {
	var names []string
	_ = json.Unmarshal(wire.Member(t.InputSchema, "required"), &names)
	var optional []terminal.Row
	_ = wire.Members(wire.Member(t.InputSchema, "properties"), func(name string, schema []byte) bool {
		description, _ := wire.String(wire.Member(schema, "description"))
		row := terminal.Row{{Text: "  " + name}, {Text: typeWords(schema)}, {Text: "optional"}, {Text: strings.TrimSpace(description), Colour: terminal.Faint}}
		if slices.Contains(names, name) {
			row[2].Text = "required"
			required = append(required, row)
		} else {
			optional = append(optional, row)
		}
		return true
	})
	return append(required, optional...)
}

// typeWords returns the types that a schema allows, "any" if it does not say.
func typeWords(schema json.RawMessage) string {
	if values := wire.Member(schema, "enum"); values != nil {
		var texts []string
		if json.Unmarshal(values, &texts) == nil && len(texts) <= 6 {
			return strings.Join(texts, "|")
		}
	}
	kind := wire.Member(schema, "type")
	if one, ok := wire.String(kind); ok {
		return one
	}
	var several []string
	if json.Unmarshal(kind, &several) == nil && len(several) > 0 {
		return strings.Join(several, "|")
	}
	return "any"
}
