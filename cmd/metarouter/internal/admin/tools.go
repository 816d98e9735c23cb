package admin

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/configfile"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/exposure"
	"github.com/mcp-metarouter/metarouter/internal/hints"
	"github.com/mcp-metarouter/metarouter/internal/taglist"
	"github.com/mcp-metarouter/metarouter/internal/tokencount"
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

func (a *API) toolOf(t *registry.NormalizedTool, snapshot *registry.Snapshot) Tool {
	harmless, _ := selector.Harmless(t)
	_, changed := snapshot.Offer(t.Server).LastSeen[t.ServerName()]
	return Tool{
		Candidate: candidateOf(t), ExposedName: a.exposed(snapshot).Exposed(t), Title: t.Title,
		Hints: t.Hints, Tokens: len(t.Definition) / tokencount.Bytes, Asks: !harmless, Changed: changed, Held: t.Held, Doubt: t.Doubt, Suspect: t.Suspect,
	}
}

func listTools(q *query) (any, error) {
	of, named, err := serversOrTool(q, q.visible())
	if err != nil {
		return nil, err
	}
	if named != "" {
		t, err := resolve(q, named)
		if err != nil {
			return nil, notServerNorTool(named, err)
		}
		return Tools{Sure: true, Total: 1, Fitting: 1, Described: true, Tools: listed(q, []*registry.NormalizedTool{t}, q.view.Snapshot())}, nil
	}
	if err := q.await(of); err != nil {
		return nil, err
	}
	if q.URL.Query().Has("q") {
		return findTools(q, of)
	}
	snapshot, tags := q.view.Snapshot(), q.URL.Query()["capability"]
	all := snapshot.Tools()
	if len(tags) > 0 {
		all = snapshot.FindByCapability(tags...)
	}
	if known := snapshot.Capabilities(); q.has("known") {
		for _, tag := range tags {
			if known[tag] == 0 {
				return nil, badRequest(configfile.UnknownName("tag", tag, slices.Sorted(maps.Keys(known))))
			}
		}
	}
	all = slices.DeleteFunc(slices.Clone(all), func(t *registry.NormalizedTool) bool {
		_, changed := snapshot.Offer(t.Server).LastSeen[t.ServerName()]
		return of != nil && !slices.Contains(of, t.Server) || q.has("changed") && !changed
	})
	return Tools{Sure: true, Total: len(snapshot.Tools()), Fitting: len(all), Tools: listed(q, all[:min(len(all), limitOf(q))], snapshot)}, nil
}

// serversOrTool returns the servers that a request for tools is about, nil for all, or the name of a tool.
func serversOrTool(q *query, c config.Config) (of []string, named string, err error) {
	of, named = q.URL.Query()["server"], q.FormValue("name")
	if n := max(len(of), len(q.URL.Query()["capability"])); n > taglist.Max {
		return nil, "", badRequest(fmt.Errorf("%d servers or capabilities are too many; name at most %d at a time", n, taglist.Max))
	}
	if !fromCommand(q.Request) {
		return of, named, nil
	}
	for _, name := range append(slices.Clone(of), named) {
		if err := q.isInWaitingEdit(name); err != nil {
			return nil, "", err
		}
	}
	for _, name := range of {
		if err := checkServer(c, name); err != nil {
			return nil, "", err
		}
	}
	if len(of) > 0 || named == "" {
		return of, "", nil
	}
	err = checkServer(c, named)
	if err == nil {
		return []string{named}, "", nil
	}
	if _, misspelled := configfile.Similar(named, configfile.ServerNames(c)); misspelled || q.has("capability") {
		return nil, "", err
	}
	return nil, named, nil
}

// notServerNorTool returns the error of resolve, for a name that may be a server's too.
func notServerNorTool(name string, err error) error {
	if e, ok := errors.AsType[*exposure.NameError](err); ok && len(e.Ambiguous)+len(e.Nearest) == 0 {
		return notFound(fmt.Errorf("no server and no tool is named %q; 'metarouter servers' lists the servers, 'metarouter tools' lists all tools", name))
	}
	return err
}

// await waits for the tools of the named servers, or of all, as the parameter wait says.
func (q *query) await(of []string) error {
	switch {
	case !q.has("wait"):
		return nil
	case len(of) == 0:
		return q.awaitTools(false)
	case q.FormValue("wait") == "some":
		var servers sync.WaitGroup
		for _, name := range of {
			servers.Go(func() { _ = q.view.Await(q.Context(), name) }) // the note says why it failed
		}
		servers.Wait()
		q.noteFailed(slices.DeleteFunc(q.view.Servers(), func(s adapter.ServerInfo) bool { return !slices.Contains(of, s.Name) }), true)
		return q.Context().Err()
	}
	for _, name := range of { // their tools as they are now, not as they were stored
		if err := q.view.Await(q.Context(), name); err != nil {
			return err
		}
	}
	return nil
}

// limitOf returns how many tools to list.
func limitOf(q *query) int {
	limit, err := strconv.Atoi(q.FormValue("limit"))
	if err != nil || limit <= 0 {
		return maxFound
	}
	return limit
}

func listed(q *query, tools []*registry.NormalizedTool, snapshot *registry.Snapshot) []Tool {
	rows := make([]Tool, len(tools))
	for i, t := range tools {
		rows[i] = q.toolOf(t, snapshot)
		if q.has("schemas") {
			rows[i].InputSchema = t.InputSchema
		}
		if q.has("changed") {
			rows[i].Changes = changesOf(t, snapshot)
		}
	}
	return rows
}

// findTools answers with the tools that fit the words in the parameter q, and with why they were found.
func findTools(q *query, of []string) (any, error) {
	words := q.FormValue("q")
	if len(words) > maxWords {
		words = strings.ToValidUTF8(words[:maxWords], "")
	}
	task := selector.Query{Task: words, Capabilities: q.URL.Query()["capability"], Servers: of, Limit: limitOf(q)}
	ranked, err := q.view.Find(q.Context(), task)
	if err != nil {
		return nil, err
	}
	explained, err := q.view.Explain(q.Context(), words, ranked.Candidates)
	if err != nil {
		return nil, err
	}
	snapshot := q.view.Snapshot()
	q.notePartial(ranked.Partial)
	found := Tools{Sure: ranked.Sure, Abstained: ranked.Abstained, By: ranked.By, Total: len(snapshot.Tools()), Fitting: len(ranked.Candidates), Tools: []Tool{}}
	for i, c := range ranked.Candidates {
		t := q.toolOf(c.Tool, snapshot)
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
	whole := wholeTool{Tool: q.toolOf(t, snapshot), OutputSchema: wire.Member(t.Definition, "outputSchema"), Definition: t.Definition, Repairs: t.Repairs}
	whole.InputSchema, whole.Changes = t.InputSchema, changesOf(t, snapshot)
	return whole, nil
}

// changesOf returns how the definition of a tool changed since a person last looked.
func changesOf(t *registry.NormalizedTool, snapshot *registry.Snapshot) []string {
	return hints.DefinitionChanges(snapshot.Offer(t.Server).LastSeen[t.ServerName()], t.Definition, maxDiff)
}

func listCapabilities(q *query) (any, error) {
	err := q.await(nil)
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

func explainOffer(q *query) (any, error) {
	question := whyQuestion{Config: q.router.Config(), Tool: q.FormValue("tool"), Task: q.FormValue("for"), Profile: q.FormValue("profile")}
	if !q.alone() {
		question.Mode = q.mcp.Default().Mode()
	}
	answer, err := askWhy(q.Context(), q.router, question)
	if _, several := errors.AsType[*exposure.NameError](err); several {
		return nil, badRequest(err)
	}
	return answer, err
}

// checkServer returns an error if no server has the name, of the configuration or maybe of another
// node.
func checkServer(c config.Config, name string) error {
	if _, err := configfile.Server(c, name); err != nil && !configfile.MayBeElsewhere(c, name) {
		return notFound(err)
	}
	return nil
}

// resolve finds the tool that a name means. It starts servers only if the stored catalog does not know the name.
func resolve(q *query, name string) (*registry.NormalizedTool, error) {
	names := func() *exposure.ToolNames { return q.exposed(q.view.Snapshot()) }
	t, err := exposure.Resolve(q.Context(), q.view, name, names, func() bool { return q.awaitTools(true) == nil })
	if err, ok := errors.AsType[*exposure.NameError](err); ok && q.Context().Err() == nil {
		return nil, notFound(unknownTool(q.view.Snapshot(), q.visible(), name, err))
	}
	return t, err
}

// unknownTool adds a remedy to a [exposure.NameError].
func unknownTool(s *registry.Snapshot, c config.Config, name string, err *exposure.NameError) error {
	for _, entry := range c.Servers {
		for _, d := range s.Offer(entry.Name).Dropped {
			if id := registry.ID(entry.Name, d.Name); d.Kind == registry.KindTool && (name == d.Name || name == id) {
				return fmt.Errorf("%s is not offered; 'metarouter why %s' says why", id, id)
			}
		}
	}
	if len(err.Ambiguous) > 0 {
		return err
	}
	unknown, advice := error(err), []string{"'metarouter tools' lists all tools", "'metarouter search WORDS' finds some"}
	if server, ok := unknownServerIn(c, name); ok {
		unknown = fmt.Errorf("no server is named %q: %w", server, err)
	} else {
		advice = append(waysToEnable(c), advice...)
	}
	end := ";"
	if len(err.Nearest) > 0 {
		end = "" // it ends with a question mark
	}
	return fmt.Errorf("%w%s %s", unknown, end, strings.Join(advice, ", "))
}

// waysToEnable says how to enable the first disabled servers, which may have any tool.
func waysToEnable(c config.Config) (advice []string) {
	const most = 3
	for _, entry := range c.Servers {
		if entry.Disabled && len(advice) < most {
			command := "enable " + entry.Name + " --write"
			if entry.ByHand {
				command = "restart " + entry.Name
			}
			advice = append(advice, fmt.Sprintf("'metarouter %s' enables server %q, which is disabled and may have it", command, entry.Name))
		}
	}
	return advice
}

// unknownServerIn returns the word before the colon of a name, if it is no server's name.
func unknownServerIn(c config.Config, name string) (server string, ok bool) {
	server, tool, ok := strings.Cut(name, ":")
	if !ok || server == "" || tool == "" || strings.HasPrefix(tool, "/") || slices.Contains(configfile.ServerNames(c), server) {
		return "", false
	}
	if prefix := c.Router.Gateway.Prefix; prefix != "" && strings.HasPrefix(server, prefix) {
		return "", false
	}
	return server, true
}
