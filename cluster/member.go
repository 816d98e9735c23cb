package cluster

import (
	"context"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/cluster/internal/callee"
	"github.com/mcp-metarouter/metarouter/cluster/internal/caller"
	"github.com/mcp-metarouter/metarouter/cluster/internal/count"
	"github.com/mcp-metarouter/metarouter/cluster/internal/directory"
	"github.com/mcp-metarouter/metarouter/cluster/internal/frame"
	"github.com/mcp-metarouter/metarouter/cluster/internal/link"
	"github.com/mcp-metarouter/metarouter/cluster/internal/roster"
	"github.com/mcp-metarouter/metarouter/cluster/internal/transfer"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/nodeidentity"
	"github.com/mcp-metarouter/metarouter/internal/signal"
)

// maxBodies bounds the bodies that are received at once, in bytes.
const maxBodies = 256 << 20

// A member is a node in one cluster, by one connection. Its parts do not know each other.
type member struct {
	node      *Node
	config    config.Cluster
	name      string // of the node, before conflicts
	self      frame.Address
	log       *zap.Logger
	identity  *nodeidentity.Identity
	link      *link.Link
	roster    *roster.Roster
	directory *directory.Directory
	caller    *caller.Caller // nil, as callee, if the node only observes
	callee    *callee.Callee
	rules     atomic.Pointer[rules]
	inForce   map[string]*directory.Announcement // by key; only use uses it
	opened    time.Time                          // when it began to connect

	mu        sync.Mutex    // guards the fields below; nothing is waited for while it is held
	edited    signal.Change // of config
	shared    shared
	remotes   map[string]*remote // by name
	leaving   bool
	connected time.Time // when the connection was made
}

// join connects to a cluster. The member does nothing before run, or observe.
func (n *Node) join(ctx context.Context, c config.Cluster) (*member, error) {
	id, err := nodeidentity.Open(n.options.KeyFile)
	if err != nil {
		return nil, err
	}
	// run closes it, after the parts that need it.
	l, err := link.Open(context.WithoutCancel(ctx), link.Options{Config: c, Identity: id, Counts: &n.counts, Log: n.log})
	if err != nil {
		return nil, err
	}
	m := &member{
		node: n, config: c, name: nodeName(c.Node), self: l.Self(), log: n.log, identity: id, link: l, opened: time.Now(),
		inForce: map[string]*directory.Announcement{}, remotes: map[string]*remote{},
	}
	m.rules.Store(rulesOf(c))
	r := roster.Options{
		Wire: l, Cluster: c.Name, Node: m.name, Version: n.options.Version, Trusted: m.trusts, Counts: &n.counts, Log: n.log,
	}
	if n.options.Host != nil {
		r.State = m.beating
	}
	m.roster = roster.New(r)
	m.directory = directory.New(directory.Options{
		JetStream: l.JetStream, Cluster: c.Name, Key: id.Key(), Node: m.name, Version: n.options.Version, Signer: id, Trusted: m.trusts, Log: n.log,
	})
	if n.options.Host != nil {
		m.addCalls()
	}
	return m, nil
}

// addCalls adds the two parts that calls have.
func (m *member) addCalls() {
	budget := transfer.NewBudget(maxBodies)
	m.caller = caller.New(caller.Options{
		Wire: m.link, Budget: budget, Log: m.log, Counts: &m.node.counts, Lost: m.roster.Lost, OnMessage: m.node.options.OnMessage,
	})
	m.callee = callee.New(callee.Options{
		Wire: m.link, Host: m.node.options.Host, Budget: budget, Log: m.log, Counts: &m.node.counts,
		Trusted: m.trusts, Shared: m.shares, Name: m.roster.Name, Lost: m.roster.Lost, Age: m.roster.Age,
	})
}

// run takes part in the cluster until ctx ends. It leaves in order then: first it takes no further
// calls, then it says goodbye.
func (m *member) run(ctx context.Context) {
	defer m.link.Close()
	// The lower parts serve the upper ones until these have ended.
	calls, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	below, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	m.link.Receive(m.receive)
	var upper, lower sync.WaitGroup
	lower.Go(func() { m.roster.Run(below) })
	lower.Go(func() { m.directory.Run(below) })
	lower.Go(func() { m.followLink(below) })
	upper.Go(func() { m.use(ctx) })
	upper.Go(func() { m.caller.Run(calls) })
	upper.Go(func() { m.callee.Run(calls) })
	lower.Go(func() { m.share(below) })
	<-ctx.Done()
	m.leave()
	cut()
	upper.Wait()
	end()
	lower.Wait()
}

// leaveWait is how long calls of other nodes may take when the router ends.
const leaveWait = 5 * time.Second

// leave takes no further calls, and waits for those under way.
func (m *member) leave() {
	m.mu.Lock()
	m.leaving = true
	m.mu.Unlock()
	m.roster.Beat()
	ctx, cancel := context.WithTimeout(context.Background(), leaveWait)
	defer cancel()
	m.callee.Leave(ctx)
}

// followLink has the directory try again when there is a new connection, and notifies those that
// wait for changes.
func (m *member) followLink(ctx context.Context) {
	var epoch uint64
	for {
		changed := m.link.Changed()
		if now := m.link.State().Epoch; now != epoch {
			epoch = now
			m.mu.Lock()
			m.connected = time.Now()
			m.mu.Unlock()
			m.directory.Retry()
			m.roster.Beat()
		}
		m.node.notify()
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// edit puts the lists of a configuration in force.
func (m *member) edit(c config.Cluster) {
	m.rules.Store(rulesOf(c))
	m.roster.Trust()
	m.directory.Trust()
	m.mu.Lock()
	m.config = c
	m.edited.Notify()
	m.mu.Unlock()
	m.node.notify()
}

// rulesChanged returns a channel that is closed at the next change of the rules.
func (m *member) rulesChanged() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.edited.Next()
}

// trusts reports whether a node may call and announce.
func (m *member) trusts(key string) bool { return key == m.self.Key || m.rules.Load().trusted[key] }

// receive passes a frame on to the part that it is for.
func (m *member) receive(f *frame.Frame) {
	h := &f.Header
	switch {
	case h.From == m.self:
		return
	case h.Kind == frame.Beat, h.Kind == frame.Ping, h.Kind == frame.Pong: // of these, the roster counts the untrusted ones too
		m.roster.Receive(f)
		return
	case !m.trusts(h.From.Key):
		m.roster.Refused(h.From.Key)
		return
	case h.To != m.self:
		m.node.counts.Dropped(count.Recipient)
		return
	case time.Since(time.UnixMilli(h.Time)).Abs() > roster.MaxClock:
		m.node.counts.Dropped(count.Clock)
		return
	}
	if m.callee == nil {
		return // it only observes
	}
	switch h.Kind {
	case frame.Accept, frame.Refuse, frame.State, frame.Notify, frame.Question, frame.Result, frame.Event:
		m.caller.Receive(f)
	case frame.Pull, frame.Part, frame.Cancel: // either side of a call sends them
		if m.caller.Knows(h.From, h.Call) {
			m.caller.Receive(f)
			return
		}
		m.callee.Receive(f)
	default:
		m.callee.Receive(f)
	}
}

// nodeName returns the name of this node: the configured name, else the name of the host.
func nodeName(configured string) string {
	if configured != "" {
		return configured
	}
	host, _ := os.Hostname() // "" has a name too
	host, _, _ = strings.Cut(strings.ToLower(host), ".")
	var b strings.Builder
	for _, c := range host {
		switch {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '-':
			b.WriteRune(c)
		default:
			b.WriteByte('-')
		}
		if b.Len() == 32 {
			break
		}
	}
	if name := strings.Trim(b.String(), "-"); name != "" {
		return name
	}
	return "node"
}
