package adapter

import (
	"cmp"
	"context"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/cluster"
	"github.com/mcp-metarouter/metarouter/internal/clusternode"
	"github.com/mcp-metarouter/metarouter/internal/configpath"
	"github.com/mcp-metarouter/metarouter/internal/execute"
	"github.com/mcp-metarouter/metarouter/internal/signal"
	"github.com/mcp-metarouter/metarouter/internal/status"
)

// clusterWait is how long commands and the first lists wait for the servers of other nodes. It takes
// about a second to hear which nodes are alive; a slow machine needs the rest.
const clusterWait = 8 * time.Second

// A clusterNode is a router's part in a cluster, as [cluster.Node] is.
type clusterNode interface {
	Run(ctx context.Context, configs <-chan config.Cluster) error
	Dial(ctx context.Context, server string) (clusternode.Stream, error)
	DialRouter(ctx context.Context, address string) (clusternode.Stream, error)
	Address() string // of this router
	Name() string    // of this node
	State(server string) status.State
	Load(server string) (calls, limit int, heard uint64)
	Terms(server string) (clusternode.Terms, bool)
	Status() []status.Status
	Settled(ctx context.Context) error
	Nodes() []clusternode.Info
	Report() clusternode.Report
	Key() string // of this node
	Sign(data []byte) ([]byte, error)
}

// A membership has the node of a router that is in a cluster. One goroutine calls follow and leave;
// the other methods may be called by many.
type membership struct {
	router   *Router
	host     *clusterHost
	log      *zap.Logger
	services *services

	now atomic.Pointer[joined] // nil in no cluster
}

// A joined is a node in its cluster.
type joined struct {
	node    clusterNode
	remotes *remotes
	since   time.Time

	// The goroutine of follow owns the fields below.
	config  config.Cluster      // in use
	configs chan config.Cluster // holds the latest one
	cancel  context.CancelFunc  // nil until the node runs
	ended   chan struct{}       // closed when it has ended
}

// join makes the node of a cluster. It does not run until follow is called.
func (m *membership) join() *joined {
	now := &joined{since: time.Now(), configs: make(chan config.Cluster, 1), ended: make(chan struct{})}
	now.node = newNode(m.router, m.host)
	now.remotes = newRemotes(now.node, m.router)
	m.now.Store(now)
	return now
}

// follow joins the cluster of a configuration, or leaves it if c is nil. The node runs until ctx ends
// at the latest. A node that fails is logged; the router's own servers do not need it.
func (m *membership) follow(ctx context.Context, c *config.Cluster) {
	now := m.now.Load()
	switch {
	case c == nil:
		m.leave()
		return
	case now == nil:
		now = m.join()
	case now.cancel != nil && reflect.DeepEqual(now.config, *c):
		return
	case now.cancel != nil && signal.IsClosed(now.ended): // it failed, with another configuration
		m.leave()
		now = m.join()
	}
	now.config = *c
	select {
	case <-now.configs: // which the node has not seen yet
	default:
	}
	now.configs <- *c
	if now.cancel != nil {
		return
	}
	ctx, now.cancel = context.WithCancel(ctx)
	go func() { // leave awaits it
		defer close(now.ended)
		ctx, stop := context.WithCancel(ctx)
		var following sync.WaitGroup
		defer following.Wait()
		defer stop()
		following.Go(func() { m.services.follow(ctx) })
		if err := now.node.Run(ctx, now.configs); err != nil && ctx.Err() == nil {
			m.log.Error("the router is in no cluster", zap.Error(err))
		}
	}()
}

// leave leaves the cluster, if the router is in one, and waits for the end of the node.
func (m *membership) leave() {
	now := m.now.Load()
	if now == nil {
		return
	}
	if now.cancel != nil {
		now.cancel()
		<-now.ended
	}
	now.remotes.close()
	m.now.Store(nil)
	m.services.clear()
}

// with returns the node in its cluster if it reaches the server on another node, else nil. A server of
// the configuration hides one of the same name.
func (m *membership) with(server string) *joined {
	if now := m.now.Load(); now != nil && !m.router.current.load().has(server) {
		if _, ok := now.node.Terms(server); ok {
			return now
		}
	}
	return nil
}

// node returns the node, nil in no cluster.
func (m *membership) node() clusterNode {
	if now := m.now.Load(); now != nil {
		return now.node
	}
	return nil
}

// remotes returns the streams to servers of other nodes, none in no cluster.
func (m *membership) remotes() *remotes {
	if now := m.now.Load(); now != nil {
		return now.remotes
	}
	return new(remotes)
}

// settled waits until the servers of other nodes are known, at most until clusterWait after the
// router joined. The error says why servers may be missing.
func (m *membership) settled(ctx context.Context) error {
	now := m.now.Load()
	if now == nil {
		return nil
	}
	ctx, cancel := context.WithDeadline(ctx, now.since.Add(clusterWait))
	defer cancel()
	return now.node.Settled(ctx)
}

// newMembership returns the membership of a router that is in no cluster yet.
func newMembership(r *Router) *membership {
	log := r.options.Log.Named("cluster")
	return &membership{router: r, host: newClusterHost(r), log: log, services: &services{
		router: r, log: log, plain: make(map[string]bool), known: make(map[string]*announced), listed: make(map[string]string),
	}}
}

// newNode returns the node of a router.
func newNode(r *Router, host *clusterHost) clusterNode {
	handler := r.members.services
	if r.options.onNode != nil {
		return r.options.onNode(r, handler)
	}
	o := cluster.Options{
		KeyFile: r.options.NodeKey, Version: r.options.Version, UseOnly: r.options.OnDemand || r.options.ServeNode == nil, Host: host, Handler: handler, Log: r.options.Log,
	}
	if o.KeyFile == "" {
		o.KeyFile, _ = configpath.NodeKey() // without it, the node reports the error
	}
	return cluster.New(o)
}

// policyOf returns the policy for a server of another node. The node applies its own limits: here a
// call may take longer, since the node may have to start the server or ask a person.
func policyOf(t clusternode.Terms, gateway string, maxResultTokens int) execute.Policy {
	p := execute.Policy{Gateway: cmp.Or(gateway, "local"), Timeout: t.Timeout, MaxResultTokens: maxResultTokens}
	if t.Timeout > 0 {
		p.Timeout += execute.StartWait + time.Minute
	}
	setModes(&p, t.Retry, t.Validate)
	return p
}

// elsewhere returns the error of an attempt to start or stop a server of another node, or nil if the
// server is on this one.
func (m *membership) elsewhere(server string) error {
	now := m.with(server)
	if now == nil {
		return nil
	}
	i := strings.LastIndexByte(server, '@')
	return &status.UnavailableError{Server: server, State: now.node.State(server), Reason: "it can be started and stopped on its node only: do that for " + server[:i] + " on " + server[i+1:]}
}

// statuses returns the status of each server of other nodes.
func (m *membership) statuses() []status.Status {
	node := m.node()
	if node == nil {
		return nil
	}
	setup := m.router.current.load()
	all := slices.DeleteFunc(slices.Clone(node.Status()), func(s status.Status) bool { return setup.has(s.Name) })
	for i := range all {
		all[i].Transport = status.ByCluster
	}
	return m.services.grouping().describe(all)
}

// name returns the name of this router's node, "" in no cluster.
func (m *membership) name() string {
	if node := m.node(); node != nil {
		return node.Name()
	}
	return ""
}
