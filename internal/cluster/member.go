package cluster

import (
	"cmp"
	"context"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/cluster/internal/directory"
	"github.com/mcp-metarouter/metarouter/internal/cluster/internal/link"
	"github.com/mcp-metarouter/metarouter/internal/cluster/internal/roster"
	"github.com/mcp-metarouter/metarouter/internal/clusternode"
	"github.com/mcp-metarouter/metarouter/internal/signal"
)

// A member is a node in one cluster. Its parts do not know each other.
type member struct {
	node      *Node
	config    config.Cluster
	name      string // of the node, before conflicts
	key       string
	log       *zap.Logger
	identity  *clusternode.Identity
	link      *link.Link
	roster    *roster.Roster
	directory *directory.Directory
	rules     atomic.Pointer[rules]
	present   atomic.Pointer[presence] // nil before the first connection
	opened    time.Time                // when it began to connect
	edited    signal.Change            // of rules
	leaving   atomic.Bool              // no stream is admitted any more

	mu        sync.Mutex         // guards the fields below; nothing is waited for while it is held
	remotes   map[string]*remote // by name
	open      map[*tracked]bool
	leftOut   []string // why servers are not shared
	cantShare string   // why no server is shared
}

// join connects to a cluster. The member does nothing before run, or observe.
func (n *Node) join(ctx context.Context, c config.Cluster) (*member, error) {
	id, err := clusternode.OpenIdentity(n.options.KeyFile)
	if err != nil {
		return nil, err
	}
	// run closes it, after the parts that need it.
	l, err := link.Open(context.WithoutCancel(ctx), link.Options{Config: c, Key: id.Key(), Log: n.log})
	if err != nil {
		return nil, err
	}
	m := &member{
		node: n, config: c, name: nodeName(c.Node), key: id.Key(), log: n.log, identity: id, link: l, opened: time.Now(),
		remotes: map[string]*remote{}, open: map[*tracked]bool{},
	}
	m.rules.Store(rulesOf(c))
	m.roster = roster.New(roster.Options{Key: m.key, Cluster: c.Name, Node: m.name, Trusted: m.trusts, Ping: m.ping, Log: n.log})
	m.directory = directory.New(directory.Options{
		Conn: l.Conn, Own: directory.Announcement{Cluster: c.Name, Key: m.key, Node: m.name, Version: n.options.Version},
		Sign: id.Sign, Load: m.loads, Announced: m.roster.Announced, Loaded: m.roster.Loaded, Log: n.log,
	})
	return m, nil
}

// run takes part in the cluster until ctx ends. It leaves in order then: first it takes no further
// calls, and last it removes its values.
func (m *member) run(ctx context.Context) {
	defer m.link.Close()
	below, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	var upper, lower sync.WaitGroup
	lower.Go(func() { m.directory.Run(below) })
	lower.Go(func() { m.roster.Run(below) })
	lower.Go(func() { m.followLink(below) })
	lower.Go(func() { m.share(below) })
	upper.Go(func() { m.use(ctx) })
	<-ctx.Done()
	m.leave()
	upper.Wait()
	end()
	lower.Wait()
	if m.link.Up() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = m.directory.Remove(ctx) // they expire otherwise
	}
}

// followLink makes this router reachable over each new connection, and has the directory try again.
func (m *member) followLink(ctx context.Context) {
	var epoch uint64
	var p *presence
	defer func() { p.close() }()
	for {
		changed, read := m.link.Changed(), m.directory.Changed()
		if now := m.link.State(); now.Connected && now.Epoch != epoch {
			m.directory.Retry()
			if conn := m.link.Conn(); p == nil || p.conn != conn || signal.IsClosed(p.ended) {
				p.close()
				var err error
				if p, err = m.appear(ctx, conn); err != nil {
					m.log.Warn("other nodes can't reach this router", zap.Error(err))
				}
			}
			if p != nil { // else it is tried again at the next change
				m.present.Store(p)
				epoch = now.Epoch
			}
		}
		m.node.changed.Notify()
		select {
		case <-changed:
		case <-read:
		case <-ctx.Done():
			return
		}
	}
}

// edit puts the lists of a configuration in force.
func (m *member) edit(c config.Cluster) {
	m.rules.Store(rulesOf(c))
	m.roster.Trust()
	if p := m.present.Load(); p != nil {
		p.endpoint.CloseUntrusted()
	}
	m.endStreams()
	m.directory.Retry()
	m.edited.Notify()
	m.node.changed.Notify()
}

// trusts reports whether a node may call and announce.
func (m *member) trusts(key string) bool { return key == m.key || m.rules.Load().trusted[key] }

// nodeName returns the name of this node: the configured name, else the name of the host.
func nodeName(configured string) string {
	if configured != "" {
		return configured
	}
	host, _ := os.Hostname() // "" has a name too
	host, _, _ = strings.Cut(strings.ToLower(host), ".")
	host = strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' {
			return c
		}
		return '-'
	}, host)
	return cmp.Or(strings.Trim(host[:min(len(host), 32)], "-"), "node")
}
