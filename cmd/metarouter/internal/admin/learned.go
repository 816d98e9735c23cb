package admin

import (
	"cmp"
	"slices"
	"strings"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/telemetry"
	"github.com/mcp-metarouter/metarouter/internal/profile"
	"github.com/mcp-metarouter/metarouter/internal/tokencount"
	"github.com/mcp-metarouter/metarouter/internal/usage"
)

// learned returns the usage that was learned from calls, even if the configuration turns learning off now.
func learned(q *query) (*usage.Store, error) {
	if s := q.router.Usage(); s != nil {
		return s, nil
	}
	return usage.Open(q.options.DataDir, q.router.Config().Files, q.options.Log)
}

func showUsage(q *query) (any, error) {
	s, err := learned(q)
	if err != nil {
		return nil, err
	}
	rules := new(profile.Rules)
	if q.has("profile") {
		rules = profile.Of(q.router.Config().Router.Profiles, q.FormValue("profile"))
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
		q.note("%s", whyNothingLearned(q))
	}
	return used, nil
}

func whyNothingLearned(q *query) string {
	switch {
	case !q.router.Config().Router.Learning:
		return `nothing was learned, since "learning" is false in the configuration; take it out, so that the router learns`
	case q.options.DataDir == "" && q.alone():
		return `nothing was learned: without a data folder (--data "") it is kept only while a router runs; name a folder`
	}
	return "nothing was learned yet; the router learns when a client calls a tool within 10 minutes after it searched with find_tools or route_task"
}

func clearUsage(q *query) (any, error) {
	s, err := learned(q)
	if err == nil {
		err = s.Clear()
	}
	return Usage{[]LearnedTool{}}, err
}

func showTokens(q *query) (any, error) {
	used := Tokens{Servers: definitionsOf(q.view), Clients: []telemetry.Cost{}}
	for _, e := range q.costs() {
		if only := q.FormValue("profile"); only == "" || e.Profile == only {
			used.Clients = append(used.Clients, e)
		}
	}
	return used, nil
}

// definitionsOf returns the cost of the definitions of each server's tools, the dearest first.
func definitionsOf(view *adapter.View) []DefinedTokens {
	rows := []DefinedTokens{}
	snapshot := view.Snapshot()
	for _, s := range view.Servers() {
		tools := snapshot.Server(s.Name)
		rows = append(rows, DefinedTokens{s.Name, len(tools), tokencount.Of(tools)})
	}
	slices.SortFunc(rows, func(a, b DefinedTokens) int {
		return cmp.Or(cmp.Compare(b.Definitions, a.Definitions), cmp.Compare(a.Server, b.Server))
	})
	return rows
}
