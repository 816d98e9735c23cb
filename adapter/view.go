package adapter

import (
	"context"
	"slices"

	"github.com/mcp-metarouter/metarouter/adapter/internal/scope"
	"github.com/mcp-metarouter/metarouter/internal/execute"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/registry"
)

// A View is the router as clients of some profiles see it: tools, servers and resources that one of
// the profiles does not allow do not exist for them. A View follows edits of the configuration, and
// remembers the filtered catalog: keep it for further requests. Its methods may be called by many
// goroutines at once.
type View struct {
	catalogView
	calls
	messages
}

// A scoped is a router and the scope of its clients. Each method must ask the scope.
type scoped struct {
	router *Router
	scope  *scope.Scope
}

// view returns the router as the clients of a scope see it.
func (s scoped) view() *View { return &View{catalogView{s}, calls{s}, messages{s}} }

// catalogView is the catalog, and the states of its servers.
type catalogView struct{ scoped }

// Exists reports whether each chosen profile exists: of a union, one of its profiles. If one does
// not, the view is empty.
func (c catalogView) Exists() bool { return c.scope.Exists() }

// Snapshot returns the visible part of the catalog, as it is known now. It does not block.
func (c catalogView) Snapshot() *registry.Snapshot { return c.scope.Visible().Snapshot }

// Changed returns a channel that is closed at the next change of the whole catalog or the
// configuration. Take it before the snapshot, and no change is missed while the router runs.
func (c catalogView) Changed() <-chan struct{} { return c.router.changed.Next() }

// Unlisted returns the names of servers that may have tools that are not known.
func (c catalogView) Unlisted() (names []string) {
	limits := c.scope.Limits()
	for _, s := range limits.Config.Servers {
		if s.Startable() && limits.Server(s.Name) && !c.router.writer.Listed(s) {
			names = append(names, s.Name)
		}
	}
	return names
}

// Complete reports whether the tools of every server that can run are known.
func (c catalogView) Complete() bool { return len(c.Unlisted()) == 0 }

// Settled waits until the tools of each server are known, if only from the stored catalog, or the
// server has failed. It waits for servers of other nodes for a short time; the error says why some
// may be missing.
func (c catalogView) Settled(ctx context.Context) error {
	r := c.router
	var asleep []string
	if r.options.OnDemand {
		asleep = c.Unlisted()
	}
	until(ctx, r.supervisor, func() bool {
		return !slices.ContainsFunc(c.Unlisted(), func(name string) bool {
			s := r.supervisor.State(name)
			return s == "" || s == status.Starting || s == status.Idle
		})
	}, asleep)
	return r.members.settled(ctx)
}

// Await waits until the server can be called, for at most [execute.StartWait]. The error wraps
// [ErrNotSent].
func (c catalogView) Await(ctx context.Context, server string) error {
	if !c.scope.Limits().Server(server) {
		return scope.NoServer(server)
	}
	ctx, cancel := context.WithTimeout(ctx, execute.StartWait)
	defer cancel()
	m := c.router.members
	if node, _ := m.locate(server); node == nil && !c.router.current.load().has(server) {
		m.settled(ctx)
	}
	if c.router.current.load().entry(server).Personal() { // no one's session is meant
		if err := c.router.supervisor.Await(ctx, server); err != nil {
			return notListed{err}
		}
		return nil
	}
	_, err := c.router.sessions.Session(ctx, server, nil)
	return err
}

// Servers returns the state of each server, in the order of the configuration, and then of the servers
// of other nodes. Clients of a profile do not see other clients' use of the servers.
func (c catalogView) Servers() (all []ServerInfo) {
	r, now, v := c.router, c.router.current.load(), c.scope.Visible()
	servers := r.supervisor.Status()
	if servers == nil { // the router does not run yet
		for _, s := range now.config.Servers {
			st := Status{Name: s.Name, State: status.Starting, Transport: string(s.Transport)}
			switch {
			case s.Disabled:
				st.State = status.Disabled
			case s.Misconfigured != "":
				st.State, st.LastError = status.Misconfigured, s.Misconfigured
			}
			servers = append(servers, st)
		}
	}
	for _, st := range append(servers, r.members.statuses()...) {
		if !v.Server(st.Name) {
			continue
		}
		st.Repairs = r.executor.Repairs(st.Name)
		if v.Rules != nil {
			st.Sessions, st.Stderr, st.StrayLine = nil, nil, "" // they name other clients
		}
		_, byHand := now.byHand[st.Name]
		calls, waiting := r.executor.Load(st.Name)
		all = append(all, ServerInfo{Status: st, Calls: calls, Waiting: waiting, Tools: len(v.Snapshot.Offer(st.Name).Tools), ByHand: byHand})
	}
	return all
}

// Nodes returns the nodes of the cluster, this one first; nil if the router is in no cluster. With a
// profile these are this node and the trusted ones that have a server which the profile allows,
// without keys and with these servers alone.
func (c catalogView) Nodes() (some []NodeInfo) {
	limits, node := c.scope.Limits(), c.router.members.node()
	if node == nil {
		return nil
	}
	if limits.Rules == nil {
		return node.Nodes()
	}
	for _, n := range node.Nodes() {
		if !n.Trusted {
			continue
		}
		at := "@" + n.Node
		if n.Self {
			at = ""
		}
		servers := slices.DeleteFunc(append([]string{}, n.Servers...), func(name string) bool { return !limits.Server(name + at) })
		if n.Self || len(servers) > 0 {
			some = append(some, NodeInfo{
				Node: n.Node, Self: n.Self, Trusted: true, Alive: n.Alive, Version: n.Version,
				Servers: servers, Latency: n.Latency, LastSeen: n.LastSeen,
			})
		}
	}
	return some
}

// Classifier returns the classifier that sorts texts into the categories of the configuration, or
// else into the capability tags of the visible tools.
func (c catalogView) Classifier() *Classifier {
	return c.scope.Classifier(c.router.sorting.now.Load())
}
