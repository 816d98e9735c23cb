package adapter

import (
	"context"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/execute"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/status"
)

// sessions are the servers' sessions, and how to call them.
type sessions struct{ router *Router }

// Session implements [execute.Sessions].
func (s sessions) Session(ctx context.Context, server string, from session.Client) (session.Session, error) {
	if now, name := s.router.members.locate(server); now != nil {
		return now.remotes.Session(ctx, name, from)
	}
	in, err := s.router.supervisor.Session(ctx, server, from)
	if call, ok := ctx.Value(storedKey{}).(*storedCall); ok && err == nil && call.made.Tool.Server == server {
		return storedSession{in, call}, nil
	}
	return in, err
}

// State implements [execute.Sessions].
func (s sessions) State(server string) status.State {
	if now, name := s.router.members.locate(server); now != nil {
		return now.node.State(name)
	}
	return s.router.supervisor.State(server)
}

// Policy implements [execute.Sessions].
func (s sessions) Policy(server string) execute.Policy {
	setup := s.router.current.load()
	p, own := setup.policies[server]
	if !own {
		now, name := s.router.members.locate(server)
		if now == nil {
			return execute.Policy{Timeout: 5 * time.Minute}
		}
		terms, _ := now.node.Terms(name)
		p = policyOf(terms, now.node.Name(), setup.config.Router.MaxResultTokens)
	}
	p.Service = s.router.members.services.grouping().services[server]
	return p
}
