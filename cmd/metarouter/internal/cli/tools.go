package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/admin"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/console"
	"github.com/mcp-metarouter/metarouter/internal/plain"
	"github.com/mcp-metarouter/metarouter/internal/schema"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/registry"
)

// Tools lists the tools of a server, of all, or with some capabilities, or describes the one of the name.
func Tools(ctx context.Context, e *Env, server string, in admin.ToolsRequest) error {
	if server != "" && in.Name != "" && in.Name != server {
		return console.Usage(fmt.Errorf("%q and --server %s are two things to list; name one", in.Name, server))
	}
	if in.Changed {
		return seeChanges(ctx, e, cmp.Or(server, in.Name))
	}
	if server != "" {
		in.Servers, in.Name = []string{server}, ""
	}
	in.Schemas, in.Limit = true, math.MaxInt32
	return show(ctx, e, need{asClient: true}, "/dashboard/tools", in, func(found admin.Tools) error {
		switch {
		case e.JSON:
			return e.PrintJSON(found.Tools)
		case found.Described:
			return describeTool(e, found.Tools[0])
		}
		return printTools(e, in.Capabilities, found.Tools)
	})
}

// seeChanges prints how the definitions of tools changed since a person last looked, of one server unless
// server is "", and has the router record that they were seen.
func seeChanges(ctx context.Context, e *Env, server string) error {
	in := admin.ToolsRequest{Changed: true, Limit: math.MaxInt32}
	if server != "" {
		in.Servers = []string{server}
	}
	return e.ask(ctx, need{}, func(ctx context.Context, c *apiClient) error {
		var found admin.Tools
		if err := c.send(ctx, "/dashboard/tools", in, &found); err != nil {
			return err
		}
		if err := printChanges(e, found.Tools); err != nil {
			return err
		}
		servers := make(map[string]bool)
		for _, t := range found.Tools {
			servers[t.Server] = true
		}
		for name := range servers {
			if err := c.send(ctx, serverPath(name)+"/seen", struct{}{}, &admin.Servers{}); err != nil {
				return err
			}
		}
		return nil
	})
}

func printChanges(e *Env, tools []admin.Tool) error {
	if e.JSON {
		type row struct {
			ID      string   `json:"id"`
			Changes []string `json:"changes"` // empty if the definition before was not kept
		}
		rows := []row{}
		for _, t := range tools {
			rows = append(rows, row{t.ID, append([]string{}, t.Changes...)})
		}
		return e.PrintJSON(rows)
	}
	if len(tools) == 0 {
		e.Note("no tool changed since you last looked")
	}
	for _, t := range tools {
		e.Say("%s", t.ID)
		if len(t.Changes) == 0 {
			e.Say("  - it is new, or it changed and its definition before was not kept")
		}
		for _, change := range t.Changes {
			e.SayBroken("  - ", change)
		}
	}
	return nil
}

func printTools(e *Env, capabilities []string, tools []admin.Tool) error {
	if len(tools) == 0 {
		if len(capabilities) > 0 {
			e.Note("no tool has all the capabilities %s; 'metarouter capabilities' lists the tags", strings.Join(capabilities, ", "))
		} else {
			e.Note("no tools; 'metarouter servers' shows whether the servers work, and in a cluster, 'metarouter doctor' what it lacks")
		}
		return nil
	}
	rows := make([]console.Row, len(tools))
	for i, t := range tools {
		rows[i] = toolCells(t.ID, t.Capabilities, t.Description)
		if len(t.Suspect) > 0 {
			e.Note("note: %s tells a model what to do beyond its use, or hid characters from people: %s", t.ID, strings.Join(t.Suspect, "; "))
		}
	}
	return e.PrintRows(rows, nil)
}

// Capabilities prints the capability tags.
func Capabilities(ctx context.Context, e *Env) error {
	return show(ctx, e, need{asClient: true}, "/dashboard/capabilities", nil, func(tags admin.Capabilities) error {
		if e.JSON {
			return e.PrintJSON(tags.Capabilities)
		}
		if len(tags.Capabilities) == 0 {
			e.Note("no tool has a tag; 'metarouter servers' shows whether the servers work")
			return nil
		}
		table := []console.Row{console.Titles("TAG", ">TOOLS")}
		for _, tag := range tags.Capabilities {
			table = append(table, console.Texts(tag.Name, tag.Tools))
		}
		return e.PrintRows(table, nil)
	})
}

// describeTool prints the facts for a caller of the tool: its description, its arguments,
// and a call to copy.
func describeTool(e *Env, t admin.Tool) error {
	e.Say("%s", t.ID)
	for _, line := range strings.Split(strings.TrimSpace(plain.Text(t.Description)), "\n") {
		if strings.TrimSpace(line) != "" {
			e.SayBroken("  ", line)
		}
	}
	if len(t.Capabilities) > 0 {
		e.Say("  Tags: %s.", strings.Join(t.Capabilities, ", "))
	}
	for _, text := range t.Suspect {
		e.SayBroken("  ", "It tells a model what to do beyond its use, or hid characters from people: "+text)
	}
	if t.Doubt != "" {
		e.SayBroken("  ", "Its server says that it does no harm, but "+t.Doubt+".")
	}
	arguments := argumentRows(t.InputSchema)
	if len(arguments) == 0 {
		e.Say("It takes no arguments.")
	} else {
		e.Say("Arguments:")
		if err := e.PrintRows(arguments, nil); err != nil {
			return err
		}
	}
	e.Say("For example:")
	e.Say("  %s", admin.Sample(t.ID, t.InputSchema, nil))
	return nil
}

// argumentRows returns a row for each argument that a schema has: first those that are required.
func argumentRows(input json.RawMessage) (required []console.Row) {
	names := schema.ParametersOf(input).Required
	var optional []console.Row
	for name, property := range wire.All(wire.Member(input, "properties")) {
		description, _ := wire.String(wire.Member(property, "description"))
		row := console.Row{{Text: "  " + name}, {Text: typeWords(property)}, {Text: "optional"}, {Text: strings.TrimSpace(description), Colour: console.Faint}}
		if slices.Contains(names, name) {
			row[2].Text = "required"
			required = append(required, row)
		} else {
			optional = append(optional, row)
		}
	}
	return append(required, optional...)
}

// typeWords returns the few values or the types that a schema allows, "any" if it does not say.
func typeWords(property json.RawMessage) string {
	for _, key := range []string{"enum", "type"} {
		words := wire.Member(property, key)
		if one, ok := wire.String(words); ok {
			return one
		}
		var several []string
		if json.Unmarshal(words, &several) == nil && len(several) > 0 && len(several) <= 6 {
			return strings.Join(several, "|")
		}
	}
	return "any"
}

// ConfirmHints prints which hints of a server's tools changed since they were confirmed, and confirms
// them unless they are only to be shown.
func ConfirmHints(ctx context.Context, e *Env, server string, show bool) error {
	return e.ask(ctx, need{}, func(ctx context.Context, c *apiClient) error {
		var changed admin.Hints
		if err := c.send(ctx, serverPath(server)+"/hints", nil, &changed); err != nil {
			return err
		}
		if len(changed.Hints) == 0 {
			e.Note("no hints of %q wait to be confirmed", server)
			return nil
		}
		shown := make(map[string]registry.Hints, len(changed.Hints))
		for _, h := range changed.Hints {
			shown[h.Tool] = h.Hints
			e.Say("%s", h.ID)
			for _, change := range h.Changes {
				e.SayBroken("  - ", change)
			}
		}
		if show {
			return nil
		}
		if err := c.send(ctx, serverPath(server)+"/hints", admin.Confirmation{Hints: shown}, &admin.Servers{}); err != nil {
			return err
		}
		e.Say("The hints of %s of %q are confirmed.", console.Counted(len(changed.Hints), "tool"), server)
		return nil
	})
}
