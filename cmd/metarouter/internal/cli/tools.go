package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/admin"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/console"
	"github.com/mcp-metarouter/metarouter/internal/plain"
	"github.com/mcp-metarouter/metarouter/internal/schema"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/registry"
)

// ToolsOptions are the flags of tools.
type ToolsOptions struct {
	Server       string
	Named        string // a server, or a tool to describe; "" for all tools
	Capabilities []string
	Known        bool // an unknown tag in Capabilities is an error
	Seen         bool
}

// Tools lists tools, or describes one.
func Tools(ctx context.Context, e *Env, o ToolsOptions) error {
	if o.Server != "" && o.Named != "" && o.Named != o.Server {
		return console.Usage(fmt.Errorf("%q and --server %s are two things to list; name one", o.Named, o.Server))
	}
	if o.Seen {
		return seeChanges(ctx, e, cmp.Or(o.Server, o.Named))
	}
	parameters := e.asClient(append(everyTool, "wait", "1")...)
	parameters["capability"] = o.Capabilities
	if o.Server != "" {
		parameters.Set("server", o.Server)
	} else {
		parameters.Set("name", o.Named)
	}
	if o.Known {
		parameters.Set("known", "1")
	}
	return show(ctx, e, need{}, "/dashboard/tools", parameters, func(found admin.Tools) error {
		switch {
		case e.JSON:
			return e.PrintJSON(found.Tools)
		case found.Described:
			return describeTool(e, normalized(found.Tools[0]))
		}
		return printTools(e, o, found.Tools)
	})
}

// everyTool has the parameters of a request for all tools, with their schemas.
var everyTool = []string{"schemas", "1", "limit", strconv.Itoa(math.MaxInt32)}

// normalized returns a tool of an answer as the registry has it, as far as the answer says.
func normalized(t admin.Tool) *registry.NormalizedTool {
	return &registry.NormalizedTool{
		ID: t.ID, Server: t.Server, Name: t.Name, Description: t.Description, Capabilities: t.Capabilities, Hints: t.Hints, Doubt: t.Doubt, InputSchema: t.InputSchema, Suspect: t.Suspect,
	}
}

// seeChanges prints how the definitions of tools changed since a person last looked, of one server unless
// server is "", and has the router record that they were seen.
func seeChanges(ctx context.Context, e *Env, server string) error {
	parameters := e.parameters(append(everyTool, "changed", "1")...)
	if server != "" {
		parameters.Set("server", server)
	}
	return e.ask(ctx, need{}, func(ctx context.Context, c *apiClient) error {
		var found admin.Tools
		if err := c.get(ctx, "/dashboard/tools", parameters, &found); err != nil {
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
			if err := c.post(ctx, serverPath(name)+"/seen", nil, struct{}{}, &admin.Servers{}); err != nil {
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

func printTools(e *Env, o ToolsOptions, tools []admin.Tool) error {
	if len(tools) == 0 {
		switch {
		case len(o.Capabilities) == 1:
			e.Note("no tool has the capability %q; 'metarouter capabilities' lists the tags", o.Capabilities[0])
		case len(o.Capabilities) > 1:
			e.Note("no tool has all the capabilities %s; 'metarouter capabilities' lists the tags", strings.Join(o.Capabilities, ", "))
		default:
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
	return show(ctx, e, need{}, "/dashboard/capabilities", e.asClient("wait", "1"), func(tags admin.Capabilities) error {
		if e.JSON {
			return e.PrintJSON(tags.Capabilities)
		}
		if len(tags.Capabilities) == 0 {
			e.Note("no tool has a tag; 'metarouter servers' shows whether the servers work")
			return nil
		}
		table := []console.Row{{{Text: "TAG", Colour: console.Bold}, {Text: "TOOLS", Colour: console.Bold, Right: true}}}
		for _, tag := range tags.Capabilities {
			table = append(table, console.Row{{Text: tag.Name}, {Text: fmt.Sprint(tag.Tools), Right: true}})
		}
		return e.PrintRows(table, nil)
	})
}

// describeTool prints the facts for a caller of the tool: its description, its arguments,
// and a call to copy.
func describeTool(e *Env, t *registry.NormalizedTool) error {
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
	arguments := argumentRows(t)
	if len(arguments) == 0 {
		e.Say("It takes no arguments.")
	} else {
		e.Say("Arguments:")
		if err := e.PrintRows(arguments, nil); err != nil {
			return err
		}
	}
	e.Say("For example:")
	e.Say("  %s", admin.Sample(t, nil))
	return nil
}

func argumentRows(t *registry.NormalizedTool) (required []console.Row) {
	names := schema.ParametersOf(t.InputSchema).Required
	var optional []console.Row
	_ = wire.Members(wire.Member(t.InputSchema, "properties"), func(name string, property []byte) bool {
		description, _ := wire.String(wire.Member(property, "description"))
		row := console.Row{{Text: "  " + name}, {Text: typeWords(property)}, {Text: "optional"}, {Text: strings.TrimSpace(description), Colour: console.Faint}}
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

// ConfirmHints prints which hints of a server's tools changed since they were confirmed, and confirms
// them unless they are only to be shown.
func ConfirmHints(ctx context.Context, e *Env, server string, show bool) error {
	return e.ask(ctx, need{}, func(ctx context.Context, c *apiClient) error {
		var changed admin.Hints
		if err := c.get(ctx, serverPath(server)+"/hints", nil, &changed); err != nil {
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
		if err := c.post(ctx, serverPath(server)+"/hints", nil, admin.Confirmation{Hints: shown}, &admin.Servers{}); err != nil {
			return err
		}
		tools := "The hints of 1 tool"
		if n := len(changed.Hints); n > 1 {
			tools = fmt.Sprintf("The hints of %d tools", n)
		}
		e.Say("%s of %q are confirmed.", tools, server)
		return nil
	})
}
