package adapter

import (
	"context"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/execute"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/supervisor"
)

// sessions are the servers' sessions, and how to call them.
type sessions struct {
	*supervisor.Supervisor
	current *holder
	members *membership
}

// Session implements [execute.Sessions].
func (s sessions) Session(ctx context.Context, server string, from session.Client) (session.Session, error) {
	if now, name := s.members.locate(server); now != nil {
		return now.remotes.Session(ctx, name, from)
	}
	in, err := s.Supervisor.Session(ctx, server, from)
	if call, ok := ctx.Value(storedKey{}).(*storedCall); ok && err == nil && call.made.Tool.Server == server {
		return storedSession{in, call}, nil
	}
	return in, err
}

// State implements [execute.Sessions].
func (s sessions) State(server string) status.State {
	if now, name := s.members.locate(server); now != nil {
		return now.node.State(name)
	}
	return s.Supervisor.State(server)
}

// Policy implements [execute.Sessions].
func (s sessions) Policy(server string) execute.Policy {
	setup := s.current.load()
	if p, ok := setup.policies[server]; ok {
		p.Service = s.members.services.grouping().services[server]
		return p
	}
	if p, ok := s.members.policy(server, setup.config.Router.MaxResultTokens); ok {
		return p
	}
	if node := s.members.node(); node != nil {
		if terms, ok := node.Terms(server); ok {
			return policyOf(terms, s.members.name(), setup.config.Router.MaxResultTokens)
		}
	}
	return execute.Policy{Timeout: 5 * time.Minute}
}
