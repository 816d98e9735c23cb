package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/cluster/internal/stream"
	"github.com/mcp-metarouter/metarouter/internal/clusternode"
	"github.com/mcp-metarouter/metarouter/internal/signal"
	"github.com/mcp-metarouter/metarouter/internal/status"
)

// A Node is this router's part in a cluster. Its methods may be called by many goroutines at once,
// also before Run and after it.
type Node struct {
	options Options
	log     *zap.Logger
	changed signal.Change

	mu      sync.Mutex // guards the fields below
	member  *member    // nil while the node is in no cluster
	failure string     // why there is no member
}

// New returns a node that is not yet running.
func New(o Options) *Node {
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	return &Node{options: o, log: o.Log.Named("cluster")}
}

// joinAgain is the pause after a failure such as a key that can't be read.
const joinAgain = 15 * time.Second

// Run takes part in the cluster until ctx ends. configs is the cluster's configuration; later ones
// replace it. Lists of servers and nodes are in force at once; other changes make it leave and join.
// When Run returns, no goroutine is left, and all servers of other nodes are forgotten.
func (n *Node) Run(ctx context.Context, configs <-chan config.Cluster) error {
	var c config.Cluster
	select {
	case c = <-configs:
	case <-ctx.Done():
		return nil
	}
	for ctx.Err() == nil {
		m, err := n.join(ctx, c)
		if err != nil {
			n.log.Warn("can't join the cluster; trying again", zap.Error(err))
			n.set(nil, err.Error())
			select {
			case c = <-configs:
			case <-time.After(joinAgain):
			case <-ctx.Done():
			}
			continue
		}
		n.set(m, "")
		c = n.stay(ctx, m, c, configs)
		n.set(nil, "")
	}
	return nil
}

// stay runs the member until ctx ends or a configuration needs another one, which it returns.
func (n *Node) stay(ctx context.Context, m *member, c config.Cluster, configs <-chan config.Cluster) config.Cluster {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { m.run(ctx) })
	defer running.Wait()
	defer cancel()
	for {
		select {
		case next := <-configs:
			if !sameNetwork(c, next) {
				return next
			}
			c = next
			m.edit(c)
		case <-ctx.Done():
			return c
		}
	}
}

func (n *Node) set(m *member, failure string) {
	n.mu.Lock()
	n.member, n.failure = m, failure
	n.mu.Unlock()
	n.changed.Notify()
}

// now returns the member, nil while the node is in no cluster, and the failure to join.
func (n *Node) now() (*member, string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.member, n.failure
}

// of returns a value of the member, the zero value while the node is in no cluster.
func of[T any](n *Node, get func(*member) T) (value T) {
	if m, _ := n.now(); m != nil {
		value = get(m)
	}
	return value
}

// known returns the facts about a server of another node; false if there is no such server.
func (n *Node) known(server string) (m *member, k known, ok bool) {
	if m, _ = n.now(); m == nil {
		return nil, k, false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.remotes[server]
	if r == nil {
		return m, k, false
	}
	return m, r.known, true
}

// Changed returns a channel that is closed at the next change of Status or Nodes but for loads and
// latencies. Several changes may be one.
func (n *Node) Changed() <-chan struct{} { return n.changed.Next() }

// dialWait is how long Dial waits for a server that is not learned yet, and how long a stream takes
// to open at most.
const dialWait = 5 * time.Second

// Dial opens a stream to a server of another node, such as "gpu@box". It waits a little for the
// definitions of a server if they are not known yet. The error wraps [session.ErrNotSent]; it is a
// [*status.UnavailableError] if the server can't be called. The stream ends when the server is gone.
func (n *Node) Dial(ctx context.Context, server string) (clusternode.Stream, error) {
	ctx, cancel := context.WithTimeout(ctx, dialWait)
	defer cancel()
	for {
		changed := n.Changed()
		m, k, ok := n.known(server)
		switch {
		case !ok:
			return clusternode.Stream{}, &status.UnavailableError{Server: server}
		case k.learned():
			return m.dial(ctx, server, k.spec)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			reason := cmp.Or(k.problem, "it is not known yet what it offers on the node "+k.node)
			return clusternode.Stream{}, &status.UnavailableError{Server: server, State: status.Starting, Reason: reason}
		}
	}
}

// Address returns the address of this router for [Node.DialRouter] of other nodes: "" without a connection, and
// for a router that only uses the servers of others.
func (n *Node) Address() string {
	return of(n, func(m *member) (address string) {
		if p := m.present.Load(); p != nil && m.shares("") {
			address = p.endpoint.Address().String()
		}
		return address
	})
}

// DialRouter opens a stream for requests of clients to a router of a trusted node, by its address. It takes at most
// 10 s. Errors are as of Dial.
func (n *Node) DialRouter(ctx context.Context, address string) (clusternode.Stream, error) {
	m, _ := n.now()
	if m == nil {
		return clusternode.Stream{}, &status.UnavailableError{Server: address}
	}
	key, router, _ := strings.Cut(address, ".")
	return m.dial(ctx, address, spec{router: stream.Address{Key: key, Router: router}})
}

// Key returns the public key of this node, "" before it joined a cluster.
func (n *Node) Key() string { return of(n, func(m *member) string { return m.key }) }

// Name returns the name of this node, "" before it joined a cluster.
func (n *Node) Name() string { return of(n, func(m *member) string { return m.roster.Name(m.key) }) }

// Sign signs data, such as the bytes of a [clusternode.Signed], with the key of this node.
func (n *Node) Sign(data []byte) ([]byte, error) {
	if m, _ := n.now(); m != nil {
		return m.identity.Sign(data)
	}
	return nil, errors.New("this router is in no cluster")
}

// State returns the state of a server of another node, "" if there is no such server.
func (n *Node) State(server string) status.State {
	if m, k, ok := n.known(server); ok {
		return m.state(k)
	}
	return ""
}

// Load returns how busy a server of another node is, by the last load of its node: the calls that
// run or wait, including calls of this router, and the limit of calls at once, 0 being no limit.
// heard differs in each load. All are 0 if there is no such server.
func (n *Node) Load(server string) (calls, limit int, heard uint64) {
	m, k, ok := n.known(server)
	if !ok {
		return 0, 0, 0
	}
	load, heard := m.roster.Load(k.router, k.Name)
	return load.Calls + load.Waiting, k.Terms.MaxConcurrent, heard
}

// Terms returns how calls of a server of another node are made. It reports false for a server that
// this node does not use.
func (n *Node) Terms(server string) (clusternode.Terms, bool) {
	_, k, ok := n.known(server)
	return k.Terms, ok
}

// Status returns the status of each server of other nodes that this one uses, by name.
func (n *Node) Status() []status.Status { return of(n, (*member).status) }

// Nodes returns the nodes of the cluster that are alive or were lately, this one first.
func (n *Node) Nodes() []clusternode.Info { return of(n, (*member).nodes) }

// Report returns how the connection to the cluster is now. It does not wait.
func (n *Node) Report() (r clusternode.Report) {
	m, failure := n.now()
	switch {
	case m != nil:
		return m.report()
	case failure != "":
		r.Problems = []string{fmt.Sprintf("This router is in no cluster: %s.", failure)}
	}
	return r
}

// Settled returns when the servers of all nodes that are alive are known, or ctx ends. The error says
// why servers may be missing; without a working NATS it comes about two seconds after this node began
// to connect.
func (n *Node) Settled(ctx context.Context) error {
	for {
		changed := n.Changed()
		wait, missing := n.settling()
		if missing == nil || wait <= 0 {
			return missing
		}
		select {
		case <-changed:
		case <-time.After(wait):
		case <-ctx.Done():
			return missing
		}
	}
}

func (n *Node) settling() (wait time.Duration, missing error) {
	m, failure := n.now()
	switch {
	case m != nil:
		return m.settling()
	case failure != "":
		return 0, fmt.Errorf("this router is in no cluster: %s", failure)
	}
	return forever, errors.New("this router has not joined its cluster yet")
}
