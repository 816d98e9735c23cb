package mux

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/mcp-metarouter/metarouter/internal/execute"
	"github.com/mcp-metarouter/metarouter/internal/inprocess"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/status"
)

// servers are the servers of all providers. They have no sessions: the providers run the
// tools.
type servers struct{ m *Mux }

func (servers) Session(context.Context, string, session.Client) (session.Session, error) {
	return nil, inprocess.ErrClosed
}

// Policy says that the servers of the other providers stand in for a server, as they do
// if a call fails.
func (s servers) Policy(server string) (p execute.Policy) {
	owners := make(map[string]*source)
	for id, r := range *s.m.routes.Load() {
		owners[strings.TrimSuffix(id, ":"+r.tool.Name)] = r.to
	}
	for _, other := range slices.Sorted(maps.Keys(owners)) {
		if owners[other] != owners[server] {
			p.StandIns = append(p.StandIns, other)
		}
	}
	return p
}

func (servers) State(string) status.State { return "" }
