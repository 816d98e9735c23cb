package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/admin"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/console"
	"github.com/mcp-metarouter/metarouter/internal/classify"
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
		return e.PrintJSON(tools)
	}
	if len(tools) == 0 {
		e.Note("no tool changed since you last looked")
	}
	for _, t := range tools {
		if len(t.Changes) == 0 {
			t.Changes = []string{"it is new, or it changed and its definition before was not kept"}
		}
		printList(e, t.ID, t.Changes)
	}
	return nil
}

// printList prints sentences about a tool below its ID.
func printList(e *Env, id string, sentences []string) {
	e.Say("%s", id)
	for _, text := range sentences {
		e.SayBroken("  - ", text)
	}
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
	e.Say("Call it with:")
	e.Say("  %s", admin.Usage(t.ID, t.InputSchema))
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
			printList(e, h.ID, h.Changes)
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

// Search prints the tools that fit the words, with the parts of their scores if they are to be explained.
func Search(ctx context.Context, e *Env, words string, in admin.ToolsRequest, explain bool) error {
	if words == "" && len(in.Capabilities) == 0 {
		return console.Usage(errors.New("nothing to search for; write words, or -c with a capability tag, such as -c browser"))
	}
	if in.Limit < 1 {
		return console.Usage(fmt.Errorf("-k %d is too small; write 1 or more", in.Limit))
	}
	in.Words = &words
	return show(ctx, e, need{asClient: true}, "/dashboard/tools", in, func(found admin.Tools) error {
		answer := searchAnswer{words, found.Sure, found.Abstained, found.By, []admin.Candidate{}, nil}
		for _, t := range found.Tools {
			if !explain {
				t.Why = nil
			}
			answer.Tools = append(answer.Tools, t.Candidate)
		}
		if found.Abstained {
			answer.Tools, answer.Nearest = []admin.Candidate{}, answer.Tools[:min(len(answer.Tools), maxNearest)]
		}
		if err := printFound(e, answer); err != nil || !found.Abstained {
			return err
		}
		return &console.Error{Code: console.NoTool}
	})
}

// maxNearest is how many tools are named as the nearest where no tool fits.
const maxNearest = 3

type searchAnswer struct {
	Query     string            `json:"query"`
	Sure      bool              `json:"sure"`
	Abstained bool              `json:"abstained"`
	By        string            `json:"by,omitempty"`      // the method that chose the first tool
	Tools     []admin.Candidate `json:"tools"`             // empty if abstained
	Nearest   []admin.Candidate `json:"nearest,omitempty"` // if abstained
}

// printFound prints the tools found, with the parts of their scores where they have them.
func printFound(e *Env, a searchAnswer) error {
	if e.JSON {
		return e.PrintJSON(a)
	}
	rows := append(a.Tools, a.Nearest...)
	if !a.Sure {
		fmt.Fprintln(e.Err, verdict(a.Abstained, len(rows) > 0))
	}
	return printCandidates(e, rows)
}

// verdict returns the line that stands above tools that are not a sure answer.
func verdict(abstained, some bool) string {
	switch {
	case !some:
		return "no tool fits"
	case abstained:
		return "no tool fits; the nearest:"
	}
	return "no tool is a sure match; try other words, or one of the nearest:"
}

// shownConfidence returns a confidence as tables show it: a dash for 0.
func shownConfidence(confidence float64) string {
	if confidence < 0.01 {
		return "–"
	}
	return admin.Confidence(confidence)
}

// printCandidates prints a row for each tool, with the parts of its score below it if it
// has them.
func printCandidates(e *Env, tools []admin.Candidate) error {
	rows := make([]console.Row, len(tools))
	for i, c := range tools {
		if len(c.Places) > 1 {
			c.ID += " (also on " + strings.Join(c.Places[1:], ", ") + ")"
		}
		rows[i] = append(console.Row{{Text: shownConfidence(c.Confidence), Right: true}}, toolCells(c.ID, c.Capabilities, c.Description)...)
	}
	return e.PrintRows(rows, func(i int) (lead, text string) {
		why := tools[i].Why
		if why == nil {
			return "", ""
		}
		text = "its score is made of " + admin.Shares(*why)
		if len(why.Missing) > 0 {
			text += "; words that it does not have: " + strings.Join(why.Missing, ", ")
		}
		return "      ", text
	})
}

func toolCells(name string, capabilities []string, description string) console.Row {
	return console.Row{{Text: name}, {Text: strings.Join(capabilities, " "), Spare: true}, {Text: summary(description), Colour: console.Faint}}
}

// summary returns the first sentence or line of a description, cut after 60 characters.
func summary(description string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(description), "\n")
	if i := strings.Index(line, ". "); i > 0 {
		line = line[:i+1]
	}
	return console.Cut(line, 60)
}

// Classify sorts a text into one of the categories, and prints it.
func Classify(ctx context.Context, e *Env, text string) error {
	if strings.TrimSpace(text) == "" {
		return console.Usage(errors.New(`the text is empty; write at least one word: metarouter classify "TEXT"`))
	}
	return show(ctx, e, need{asClient: true}, "/dashboard/classify", admin.ClassifyRequest{Text: text}, func(answer admin.Classified) error {
		if e.JSON {
			return e.PrintJSON(answer.Outcome)
		}
		return printCategory(e, answer.Outcome, answer.Categories)
	})
}

func printCategory(e *Env, o classify.Outcome, categories []string) error {
	const most = 10 // categories that are printed
	reasoning := "without reasoning"
	if o.UseReasoning {
		reasoning = "with reasoning"
	}
	e.Say("%s (confidence %.2f): model %s, %s", o.Category, o.Confidence, o.Model, reasoning)
	var rows []console.Row
	for i, p := range o.Probabilities {
		rows = append(rows, console.Texts(fmt.Sprintf("%.3f", p), categories[i]))
	}
	slices.SortStableFunc(rows, func(a, b console.Row) int { return strings.Compare(b[0].Text, a[0].Text) })
	return e.PrintRows(rows[:min(len(rows), most)], nil)
}

// Why prints why a tool is offered or not, and where it ranks for a task if there is one.
func Why(ctx context.Context, e *Env, tool, task string) error {
	return show(ctx, e, need{}, "/dashboard/why", admin.WhyRequest{Tool: tool, Task: task}, func(answer admin.Reasons) (err error) {
		verdict := "is offered"
		if !answer.Offered {
			verdict, err = "is not offered", &console.Error{Code: console.NoTool}
		}
		if e.JSON {
			return cmp.Or(e.PrintJSON(answer), err)
		}
		e.Say("%s %s.", answer.Tool, verdict)
		for _, reason := range answer.All {
			e.SayBroken("  - ", e.Files.Advise(reason))
		}
		return err
	})
}
