package server

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// maxInstructions is where Claude Code cuts them.
const maxInstructions = 2048

const (
	searchInstructions = `This router holds %d tools of %d MCP servers. They are not listed: find them.
1. find_tools {"query": "what you want to do"} returns the best tools, with the input schema of the first.
2. call_tool {"tool": "<id>", "arguments": {…}} runs one; call_read_only_tool runs only what changes nothing; describe_tools {"ids": […]} shows full schemas.
route_task {"task": "…", "arguments": {…}} does both steps at once where that is safe.
Search before you say that something cannot be done.
`
	directInstructions = `This router shows %d tools of %d MCP servers as one list. A tool is named %s.
`
)

// instructions tells a model what is behind the router, and how to find it.
func (s *Server) instructions() string {
	snapshot := s.router.Snapshot()
	servers := slices.DeleteFunc(slices.Clone(s.router.Servers()), off)
	var b strings.Builder
	if s.search {
		fmt.Fprintf(&b, searchInstructions, len(snapshot.Tools()), len(servers))
	} else {
		naming := "server" + cmp.Or(s.opts.Separator, "__") + "tool"
		if s.opts.Names == Bare {
			naming = "as by its server, or " + naming + " where several servers have that name"
		}
		fmt.Fprintf(&b, directInstructions, len(snapshot.Tools()), len(servers), naming)
	}

	capabilities := snapshot.Capabilities()
	tags := slices.SortedFunc(maps.Keys(capabilities), func(a, b string) int {
		return cmp.Or(cmp.Compare(capabilities[b], capabilities[a]), cmp.Compare(a, b))
	})
	for i, tag := range tags {
		tags[i] = fmt.Sprintf("%s (%d)", tag, capabilities[tag])
	}
	names := make([]string, len(servers))
	for i, server := range servers {
		if server.Tools > 0 || up(server) {
			names[i] = fmt.Sprintf("%s (%d)", server.Name, server.Tools)
		} else {
			names[i] = fmt.Sprintf("%s (%s)", server.Name, server.State)
		}
	}
	// Servers tell more than capabilities, but may take no more than two thirds.
	enumerate(&b, "Servers, with their number of tools: ", names, (maxInstructions-b.Len())*2/3)
	enumerate(&b, "Capabilities: ", tags, maxInstructions-b.Len())
	return b.String()
}

// enumerate writes a line with as many of the items as fit into room bytes.
func enumerate(b *strings.Builder, title string, items []string, room int) {
	const more = ", and %d more"
	line := title
	shown := 0
	for ; shown < len(items); shown++ {
		next := items[shown]
		if shown > 0 {
			next = ", " + next
		}
		if len(line)+len(next)+len(more)+len(".\n")+8 > room {
			break
		}
		line += next
	}
	if shown == 0 {
		return
	}
	if left := len(items) - shown; left > 0 {
		line += fmt.Sprintf(more, left)
	}
	b.WriteString(line + ".\n")
}
