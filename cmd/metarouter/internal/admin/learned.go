package admin

import (
	"cmp"
	"slices"
	"strings"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/telemetry"
	"github.com/mcp-metarouter/metarouter/internal/profile"
	"github.com/mcp-metarouter/metarouter/internal/usage"
	"github.com/mcp-metarouter/metarouter/registry"
)

// learned returns what was learned from calls, even if the configuration turns learning off now.
func (a *API) learned() (*usage.Store, error) {
	if s := a.router.Usage(); s != nil {
		return s, nil
	}
	return usage.Open(a.options.DataDir, a.router.Config().Files, a.options.Log)
}

// usage answers GET /dashboard/usage.
func (a *API) usage(q *query) (any, error) {
	s, err := a.learned()
	if err != nil {
		return nil, err
	}
	rules := new(profile.Rules)
	if q.has("profile") {
		rules = profile.Of(a.router.Config().Router.Profiles, q.FormValue("profile"))
	}
	used := Usage{[]LearnedTool{}}
	for _, e := range s.Tools() {
		if server, name, _ := strings.Cut(e.Tool, ":"); !rules.Name(server, name) {
			continue
		}
		row := LearnedTool{Tool: e.Tool, Calls: e.Calls, Failures: e.Failures, Queries: []string{}, Learned: []LearnedQuery{}}
		for _, l := range e.Queries {
			query := cmp.Or(l.Typed, strings.Join(l.Words, " "))
			row.Queries = append(row.Queries, query)
			row.Learned = append(row.Learned, LearnedQuery{query, l.Words, l.Votes, l.Last})
		}
		used.Tools = append(used.Tools, row)
	}
	if len(used.Tools) == 0 {
		q.note("%s", a.whyNothingLearned(q.alone()))
	}
	return used, nil
}

// whyNothingLearned says why there is nothing to show.
func (a *API) whyNothingLearned(alone bool) string {
	switch {
	case !a.router.Config().Router.Learning:
		return `nothing was learned, since "learning" is false in the configuration; take it out, so that the router learns`
	case a.options.DataDir == "" && alone:
		return `nothing was learned: without a data folder (--data "") it is kept only while a router runs; name a folder`
	}
	return "nothing was learned yet; the router learns when a client calls a tool within 10 minutes after it searched with find_tools or route_task"
}

// clearUsage answers POST /dashboard/usage/clear.
func (a *API) clearUsage(*query) (any, error) {
	s, err := a.learned()
	if err == nil {
		err = s.Clear()
	}
	return Usage{[]LearnedTool{}}, err
}

// tokens answers GET /dashboard/tokens.
func (a *API) tokens(q *query) (any, error) {
	used := Tokens{Servers: definitionsOf(q.scope), Clients: []telemetry.Cost{}}
	for _, e := range a.costs() {
		if only := q.FormValue("profile"); only == "" || e.Profile == only {
			used.Clients = append(used.Clients, e)
		}
	}
	return used, nil
}

// definitionsOf returns what the definitions of each server's tools cost, the dearest first.
func definitionsOf(scope *adapter.View) []DefinedTokens {
	rows := []DefinedTokens{}
	snapshot := scope.Snapshot()
	for _, s := range scope.Servers() {
		tools := snapshot.Server(s.Name)
		rows = append(rows, DefinedTokens{s.Name, len(tools), registry.Tokens(tools)})
	}
	slices.SortFunc(rows, func(a, b DefinedTokens) int {
		return cmp.Or(cmp.Compare(b.Definitions, a.Definitions), cmp.Compare(a.Server, b.Server))
	})
	return rows
}
