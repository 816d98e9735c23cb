package admin

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/configfile"
	"github.com/mcp-metarouter/metarouter/internal/content"
	"github.com/mcp-metarouter/metarouter/internal/exposure"
	"github.com/mcp-metarouter/metarouter/internal/hints"
	"github.com/mcp-metarouter/metarouter/internal/taglist"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector"
)

const (
	maxFound = 50      // tools in an answer, unless the request says how many
	maxWords = 4 << 10 // bytes of a search
	maxDiff  = 2000    // characters of a member of a changed definition, before and after
)

func candidateOf(t *registry.NormalizedTool) Candidate {
	return Candidate{ID: t.ID, Tool: t.ID, Server: t.Server, Name: t.Name, Description: t.Description, Capabilities: append([]string{}, t.Capabilities...)}
}

func rankedOf(c selector.Candidate) Candidate {
	row := candidateOf(c.Tool)
	row.Score, row.Confidence, row.Ambiguous = c.Score, c.Confidence, c.Ambiguous
	if row.Places = serversOf(c.Places); row.Places != nil {
		row.OtherIDs = c.IDs()[1:]
	}
	return row
}

func serversOf(tools []*registry.NormalizedTool) (servers []string) {
	for _, t := range tools {
		servers = append(servers, t.Server)
	}
	return servers
}

func toolOf(t *registry.NormalizedTool, snapshot *registry.Snapshot, names *exposure.ToolNames) Tool {
	harmless, _ := selector.Harmless(t)
	_, changed := snapshot.Offer(t.Server).LastSeen[t.ServerName()]
	return Tool{
		Candidate: candidateOf(t), ExposedName: names.Exposed(t), Title: t.Title,
		Hints: t.Hints, Tokens: len(t.Definition) / content.TokenBytes, Asks: !harmless, Changed: changed, Held: t.Held, Doubt: t.Doubt, Suspect: t.Suspect,
	}
}

func listTools(q *query, in ToolsRequest) (any, error) {
	if n := max(len(in.Servers), len(in.Capabilities)); n > taglist.Max {
		return nil, badRequest(fmt.Errorf("%d servers or capabilities are too many; name at most %d at a time", n, taglist.Max))
	}
	snapshot := q.view.Snapshot
	if in.Limit <= 0 {
		in.Limit = maxFound
	}
	if in.Name != "" {
		_, err := q.server(in.Name)
		if _, misspelled := configfile.Similar(in.Name, named(q.view.Servers())); err != nil && !misspelled && len(in.Capabilities) == 0 {
			t, err := resolve(q, in.Name)
			if err != nil {
				return nil, err
			}
			return Tools{Sure: true, Total: 1, Fitting: 1, Described: true, Tools: listed(q, in, []*registry.NormalizedTool{t}, snapshot())}, nil
		}
		in.Servers = append(in.Servers, in.Name)
	}
	for _, name := range in.Servers {
		if _, err := q.server(name); err != nil {
			return nil, err
		}
	}
	if err := q.await(in); err != nil {
		return nil, err
	}
	if known := snapshot().Capabilities(); in.Known {
		for _, tag := range taglist.Clean(in.Capabilities) {
			if known[tag] == 0 {
				return nil, badRequest(configfile.UnknownName("tag", tag, slices.Sorted(maps.Keys(known))))
			}
		}
	}
	if in.Words != nil {
		return findTools(q, in)
	}
	return fittingTools(q, in, snapshot()), nil
}

// fittingTools returns the tools of the servers with the capabilities that a request names.
func fittingTools(q *query, in ToolsRequest, snapshot *registry.Snapshot) Tools {
	all := snapshot.Tools()
	if len(in.Capabilities) > 0 {
		all = snapshot.FindByCapability(in.Capabilities...)
	}
	all = slices.DeleteFunc(slices.Clone(all), func(t *registry.NormalizedTool) bool {
		_, changed := snapshot.Offer(t.Server).LastSeen[t.ServerName()]
		return len(in.Servers) > 0 && !slices.Contains(in.Servers, t.Server) || in.Changed && !changed
	})
	return Tools{Sure: true, Total: len(snapshot.Tools()), Fitting: len(all), Tools: listed(q, in, all[:min(len(all), in.Limit)], snapshot)}
}

// await waits for the tools that a command asks about, as they are now and not as they were stored.
func (q *query) await(in ToolsRequest) error {
	if !fromCommand(q.Request) || in.Changed {
		return nil
	}
	if len(in.Servers) == 0 {
		return q.awaitTools(false)
	}
	for _, name := range in.Servers {
		if err := q.view.Await(q.Context(), name); err != nil {
			return err
		}
	}
	return nil
}

func listed(q *query, in ToolsRequest, tools []*registry.NormalizedTool, snapshot *registry.Snapshot) []Tool {
	rows, names := make([]Tool, len(tools)), q.exposed(snapshot)
	for i, t := range tools {
		rows[i] = toolOf(t, snapshot, names)
		if in.Schemas {
			rows[i].InputSchema = t.InputSchema
		}
		if in.Changed {
			rows[i].Changes = changesOf(t, snapshot)
		}
	}
	return rows
}

// findTools answers with the tools that fit the words, and with why they were found.
func findTools(q *query, in ToolsRequest) (any, error) {
	words := *in.Words
	if len(words) > maxWords {
		words = strings.ToValidUTF8(words[:maxWords], "")
	}
	task := selector.Query{Task: words, Capabilities: in.Capabilities, Servers: in.Servers, Limit: in.Limit}
	ranked, err := q.view.Find(q.Context(), task)
	if err != nil {
		return nil, err
	}
	explained, err := q.view.Explain(q.Context(), words, ranked.Candidates)
	if err != nil {
		return nil, err
	}
	snapshot := q.view.Snapshot()
	names := q.exposed(snapshot)
	q.notePartial(ranked.Partial)
	found := Tools{Sure: ranked.Sure, Abstained: ranked.Abstained, By: ranked.By, Total: len(snapshot.Tools()), Fitting: len(ranked.Candidates), Tools: []Tool{}}
	for i, c := range ranked.Candidates {
		t := toolOf(c.Tool, snapshot, names)
		t.Candidate = rankedOf(c)
		t.Why, t.Reason = &explained[i], explained[i].Why()
		found.Tools = append(found.Tools, t)
	}
	return found, nil
}

func showTool(q *query) (any, error) {
	snapshot := q.router.Snapshot()
	t, ok := snapshot.Tool(q.FormValue("id"))
	if !ok {
		return nil, notFound(errors.New("this tool does not exist, or no longer exists"))
	}
	whole := toolOf(t, snapshot, q.exposed(snapshot))
	whole.InputSchema, whole.OutputSchema, whole.Definition = t.InputSchema, wire.Member(t.Definition, "outputSchema"), t.Definition
	whole.Changes, whole.Repairs = changesOf(t, snapshot), t.Repairs
	return whole, nil
}

// changesOf returns how the definition of a tool changed since a person last looked.
func changesOf(t *registry.NormalizedTool, snapshot *registry.Snapshot) []string {
	return hints.DefinitionChanges(snapshot.Offer(t.Server).LastSeen[t.ServerName()], t.Definition, maxDiff)
}

func listCapabilities(q *query) (any, error) {
	err := q.await(ToolsRequest{})
	return Capabilities{tagsOf(q.view.Snapshot())}, err
}

// tagsOf returns the capabilities of tools, by name.
func tagsOf(s *registry.Snapshot) []Tag {
	tags := []Tag{}
	for name, n := range s.Capabilities() {
		tags = append(tags, Tag{name, n})
	}
	slices.SortFunc(tags, func(a, b Tag) int { return cmp.Compare(a.Name, b.Name) })
	return tags
}

// resolve finds the tool that a name means. It starts servers only if the stored catalog does not know the name.
func resolve(q *query, name string) (*registry.NormalizedTool, error) {
	names := func() *exposure.ToolNames { return q.exposed(q.view.Snapshot()) }
	t, err := exposure.Resolve(q.Context(), q.view, name, names, func() bool { return q.awaitTools(true) == nil })
	wrong, ok := errors.AsType[*exposure.NameError](err)
	switch {
	case !ok || q.Context().Err() != nil:
		return t, err
	case len(wrong.Ambiguous) > 0:
		return nil, notFound(wrong)
	}
	end := ";"
	if wrong.Nearest != "" {
		end = "" // it ends with a question mark
	}
	return nil, notFound(fmt.Errorf("%w%s 'metarouter tools' lists all tools, 'metarouter why TOOL' says why one is missing", wrong, end))
}
