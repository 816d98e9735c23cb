package server

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/mcp-metarouter/metarouter/internal/exposure"
	"github.com/mcp-metarouter/metarouter/internal/prose"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/server/internal/catalog"
	"github.com/mcp-metarouter/metarouter/server/internal/conversation"
)

// A greeting answers a client's first request: the router's name and capabilities.
type greeting struct {
	*display
	catalog *catalog.Catalog
	itself  string // the server that is shown as itself; "" shows the router
}

// initialize answers a client of the legacy era.
func (g *greeting) initialize(ctx context.Context, c conversation.Call) (json.RawMessage, error) {
	g.await(ctx)
	return fmt.Appendf(nil, `{"protocolVersion":%q,"capabilities":%s,"serverInfo":%s,"instructions":%s}`,
		c.Revision(), g.capabilities(false), g.info(), wire.Marshal(g.instructions())), nil
}

// discover answers a client of the modern era.
func (g *greeting) discover(ctx context.Context, _ conversation.Call) (json.RawMessage, error) {
	g.await(ctx)
	return fmt.Appendf(nil, `{"supportedVersions":%s,"capabilities":%s,"instructions":%s}`,
		wire.Marshal(conversation.Revisions()), g.capabilities(true), wire.Marshal(g.instructions())), nil
}

// await waits for the server that is shown as itself, whose version and instructions the answer has.
func (g *greeting) await(ctx context.Context) {
	if g.itself != "" {
		g.settle(ctx, g.catalog)
	}
}

// appsExtension is the extension by which servers have user interfaces.
const appsExtension = "io.modelcontextprotocol/ui"

// tasksExtension is the extension of 2026-07-28 by which a call may be answered with
// a task; the client then asks for its state.
const tasksExtension = "io.modelcontextprotocol/tasks"

// relayedExtensions are the extensions of servers that work behind the router. A client is promised no others.
var relayedExtensions = []string{appsExtension, tasksExtension, session.SkillsExtension}

// capabilities has everything that clients may ask for: all that the router relays,
// whether or not a server that has it is up yet; of other extensions, those that servers
// have, as far as their requests are relayed.
func (g *greeting) capabilities(modern bool) json.RawMessage {
	const all = `{"tools":{"listChanged":true},"prompts":{"listChanged":true},"resources":{"subscribe":true,"listChanged":true},"logging":{},"completions":{}}`
	extensions := make(map[string]json.RawMessage)
	snapshot := g.router.Snapshot()
	for _, i := range g.router.Servers() {
		for name, value := range wire.All(snapshot.Offer(i.Name).Extensions) {
			if extensions[name] == nil && slices.Contains(relayedExtensions, name) {
				extensions[name] = value
			}
		}
	}
	if !modern {
		delete(extensions, tasksExtension)
	}
	if g.itself == "" || extensions[session.SkillsExtension] != nil { // a client of 2025 is not told later
		extensions[session.SkillsExtension] = json.RawMessage("{}") // resources/directory/read is not relayed
	}
	answer := []byte(all)
	if declared := snapshot.Offer(g.itself).Capabilities; g.itself != "" && declared != nil { // clients make tools of their own for each capability
		for name := range wire.All([]byte(all)) {
			if wire.Member(declared, name) == nil {
				answer = wire.DeleteMember(answer, name)
			}
		}
	}
	if len(extensions) == 0 {
		return answer
	}
	return wire.SetMember(answer, "extensions", wire.Marshal(extensions))
}

// maxInstructions is where Claude Code cuts them.
const maxInstructions = 2048

const (
	searchInstructions = `This router holds %s of %s. They are not listed: find them.
` + howToSearch
	codeInstructions = `This router holds %s of %s. They are not listed: find them, and call them in scripts.
1. find_tools {"query": "what you want to do"} returns the best tools as TypeScript declarations; describe_tools {"ids": […]} shows them in full.
If it says "sure": false, try other words, or read the nearest.
2. run_script {"code": "…"} runs JavaScript that calls tools: const found = await call("<id>", {…}); return found.length. Do all calls of a task in one script, and return only what you need.
Search before you say that something cannot be done.
`
	directInstructions = `This router shows %s of %s as one list. A tool is named %s.
`
	// findInstructions follow in a list with find_tools.
	findInstructions = `If your client has not loaded a tool, find_tools {"query": "what you want to do"} returns the name by which to load it.
`
	// openInstructions fit both modes.
	openInstructions = `This router serves the tools of %s. Some have not listed theirs yet. A tool is named %s.
If find_tools is not in your list of tools, the list has all tools. If it is, the others are not listed: find them.
` + howToSearch

	howToSearch = `1. find_tools {"query": "what you want to do"} returns the best tools, with the input schema of the first.
If it says "sure": false, try other words, or read the nearest.
2. call_tool {"tool": "<id>", "arguments": {…}} runs one; call_read_only_tool runs only what changes nothing; describe_tools {"ids": […]} shows full schemas.
route_task {"task": "…", "arguments": {…}} does both steps at once where that is safe.
Search before you say that something cannot be done.
`
	emptyInstructions = `This router has no MCP server yet, so it has no tools.
The user adds servers in a terminal: "metarouter import CLIENT --write" copies those of a client such as claude-desktop, "metarouter add NAME --write -- COMMAND" adds one, "metarouter init --write" begins with bundled ones.
Their tools appear here at once. If they do not, "metarouter doctor" says why.
`
)

// instructions tell a model which servers are behind the router, and how to find their tools.
func (g *greeting) instructions() string {
	view, decided := g.catalog.View(), len(g.current().decision.late) == 0 // whether it is certain which tools the client will see
	snapshot, o := view.Snapshot, view.Options
	if g.itself != "" {
		return snapshot.Offer(g.itself).Instructions
	}
	servers := slices.DeleteFunc(slices.Clone(g.router.Servers()), func(s status.Server) bool { return s.State == "disabled" || s.State == "self" })
	if len(servers) == 0 && len(snapshot.Tools()) == 0 {
		return emptyInstructions
	}
	naming := "server" + cmp.Or(o.Separator, "__") + "tool"
	if o.Names == exposure.Bare {
		naming = "as by its server, or " + naming + " where several servers have that name"
	}
	tools, of := prose.Count(len(snapshot.Tools()), "tool"), prose.Count(len(servers), "MCP server")
	var b strings.Builder
	switch {
	case o.Code:
		fmt.Fprintf(&b, codeInstructions, tools, of)
	case o.Search && decided:
		fmt.Fprintf(&b, searchInstructions, tools, of)
	case decided:
		fmt.Fprintf(&b, directInstructions, tools, of, naming)
		if slices.ContainsFunc(o.Own, func(own catalog.OwnTool) bool { return own.Name == "find_tools" }) {
			b.WriteString(findInstructions)
		}
	default:
		fmt.Fprintf(&b, openInstructions, of, naming)
	}

	capabilities := snapshot.Capabilities()
	tags := slices.SortedFunc(maps.Keys(capabilities), func(a, b string) int {
		return cmp.Or(cmp.Compare(capabilities[b], capabilities[a]), cmp.Compare(a, b))
	})
	for i, tag := range tags {
		tags[i] = fmt.Sprintf("%s (%d)", tag, capabilities[tag])
	}
	names := make([]string, len(servers))
	for i, s := range servers {
		if s.Tools > 0 || s.State == "ready" || s.State == "idle" {
			names[i] = fmt.Sprintf("%s (%d)", s.Name, s.Tools)
		} else {
			names[i] = fmt.Sprintf("%s (%s)", s.Name, s.State)
		}
	}
	// Servers say more than capabilities, but may take no more than two thirds.
	enumerate(&b, "Servers, with their number of tools: ", names, (maxInstructions-b.Len())*2/3)
	enumerate(&b, "Capabilities: ", tags, maxInstructions-b.Len())
	if decided && !o.Search {
		g.quote(&b, servers)
	}
	return b.String()
}

// maxQuoted bounds the instructions of the router and its servers together, in bytes, and maxQuote the instructions of one server.
const maxQuoted, maxQuote = 4096, 500

// quote writes a section with the instructions of each server that has some, as far as they fit. In search mode, find_tools
// and describe_tools show them with the server's first tool.
func (g *greeting) quote(b *strings.Builder, servers []status.Server) {
	left := 0
	for _, s := range servers {
		text := prose.Cut(g.router.Snapshot().Offer(s.Name).Instructions, maxQuote)
		section := fmt.Sprintf("\n## %s\n%s\n", s.Name, text)
		switch {
		case text == "":
		case b.Len()+len(section) > maxQuoted:
			left++
		default:
			b.WriteString(section)
		}
	}
	if left > 0 {
		fmt.Fprintf(b, "\nThe instructions of %s are left out.\n", prose.Count(left, "more server"))
	}
}

// enumerate writes a line with as many of the items as fit into room bytes.
func enumerate(b *strings.Builder, title string, items []string, room int) {
	if text := listed(items, room-len(title)-len(".\n")); text != "" {
		b.WriteString(title + text + ".\n")
	}
}

// listed returns as many of the items as fit into room bytes, and how many more there are; "" if none fits.
func listed(items []string, room int) (text string) {
	const more = ", and %d more"
	for i, item := range items {
		next := strings.TrimPrefix(text+", "+item, ", ")
		switch fits := len(next)+len(more)+8 <= room; {
		case !fits && i > 0:
			return text + fmt.Sprintf(more, len(items)-i)
		case !fits:
			return ""
		}
		text = next
	}
	return text
}
