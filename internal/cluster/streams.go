package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/internal/cluster/internal/stream"
	"github.com/mcp-metarouter/metarouter/internal/clusternode"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/signal"
	"github.com/mcp-metarouter/metarouter/internal/status"
)

// A tracked is an open stream. Close takes it out of the streams of its member.
type tracked struct {
	*stream.Conn
	member *member
	name   string // of the server here, such as "gpu@box"; "" for a stream that another node opened
	server string // its name on its own node; "" for a stream to a router, as name is its address then
}

// Close implements [net.Conn].
func (t *tracked) Close() error {
	t.member.mu.Lock()
	delete(t.member.open, t)
	t.member.mu.Unlock()
	return t.Conn.Close()
}

// uses reports whether a server is still the server of a router, or name the address of a trusted one. m.mu must be held.
func (m *member) uses(name string, router stream.Address) bool {
	if name == router.String() {
		return m.trusts(router.Key)
	}
	r := m.remotes[name]
	return r != nil && r.router == router
}

// endStreams ends at once the streams of nodes that are not trusted or gone, and those to servers that are
// not shared any more. The handler, which hears of servers that are not used any more, ends streams to these
// after their calls.
func (m *member) endStreams() {
	lives := map[stream.Address]bool{}
	for _, p := range m.roster.Peers() {
		lives[p.Address] = p.Alive || p.Leaving
	}
	var ending []*tracked
	m.mu.Lock()
	for t := range m.open {
		ok := lives[t.Peer]
		if t.name == "" {
			ok = m.shares(t.server)
		}
		if !ok || !m.trusts(t.Peer.Key) {
			ending = append(ending, t)
		}
	}
	m.mu.Unlock()
	for _, t := range ending {
		_ = t.NetConn().Close() // at once, which Close of TLS may not be
	}
}

// dial opens a stream to a server, or to a router for a spec without a server. name is its name here, or the
// address. The error wraps [session.ErrNotSent].
func (m *member) dial(ctx context.Context, name string, to spec) (clusternode.Stream, error) {
	p := m.present.Load()
	if p == nil || !m.link.Up() {
		return clusternode.Stream{}, &status.UnavailableError{Server: name, State: status.Failed, Reason: "there is no connection to NATS"}
	}
	c, err := p.endpoint.Dial(ctx, to.router, []byte(to.Name))
	m.noteDial(to.router, err)
	if err != nil {
		return clusternode.Stream{}, fmt.Errorf("%w: open a stream to %s: %w", session.ErrNotSent, name, err)
	}
	t := &tracked{c, m, name, to.Name}
	m.mu.Lock()
	ok := m.uses(name, to.router)
	if ok {
		m.open[t] = true
	}
	m.mu.Unlock()
	if !ok { // it went meanwhile
		c.Close()
		return clusternode.Stream{}, &status.UnavailableError{Server: name}
	}
	return m.streamOf(t), nil
}

// noteDial notes what an attempt to open a stream says about its router.
func (m *member) noteDial(router stream.Address, err error) {
	switch {
	case err == nil, errors.Is(err, stream.ErrRefused):
		m.roster.SetTrouble(router, "")
	case errors.Is(err, stream.ErrUntrusted):
		m.roster.SetTrouble(router, untrusting)
	case errors.Is(err, stream.ErrUnreachable), errors.Is(err, stream.ErrSilent):
		m.roster.Doubt(router)
	}
}

func (m *member) streamOf(t *tracked) clusternode.Stream {
	return clusternode.Stream{Conn: t, Server: t.server, Key: t.Peer.Key, Node: m.roster.Name(t.Peer.Key), Lapsed: t.Lapsed, Local: t.Local}
}

// admit returns why a stream of another node to a server is refused, nil if it is not.
func (m *member) admit(_ stream.Address, server []byte) error {
	if m.leaving.Load() || !m.shares(string(server)) {
		return stream.ErrRefused
	}
	return nil
}

// accept has the host serve the streams of other nodes until ctx or the endpoint ends. Then it waits
// for the host.
func (m *member) accept(ctx context.Context, p *presence) {
	defer close(p.ended)
	var serving sync.WaitGroup
	defer serving.Wait()
	for {
		c, err := p.endpoint.Accept(ctx)
		if err != nil {
			return
		}
		t := &tracked{c, m, "", string(c.Terms)}
		m.mu.Lock()
		m.open[t] = true
		m.mu.Unlock()
		serving.Go(func() {
			defer t.Close()
			m.log.Debug("serving another node", zap.String("server", t.server), zap.String("key", t.Peer.Key))
			m.node.options.Host.Serve(ctx, m.streamOf(t))
		})
		if !m.trusts(t.Peer.Key) || !m.shares(t.server) { // the rules have just changed
			m.endStreams()
		}
	}
}

// leaveWait is how long calls of other nodes may take when the router ends.
var leaveWait = 5 * time.Second

// leaveAtLeast is how long other nodes have to hear of the end.
const leaveAtLeast = 300 * time.Millisecond

// leave says that this router leaves, and waits for the calls of other nodes under way.
func (m *member) leave() {
	m.leaving.Store(true)
	ctx, cancel := context.WithTimeout(context.Background(), leaveWait)
	defer cancel()
	if !m.link.Up() {
		return
	}
	saying, end := context.WithTimeout(ctx, time.Second)
	defer end()
	if err := m.directory.Leave(saying); err != nil {
		m.log.Debug("can't announce that this router leaves", zap.Error(err))
	}
	for servers := m.served(); len(servers) > 0 && !signal.Within(ctx.Done(), leaveAtLeast); servers = m.served() {
		if !slices.ContainsFunc(servers, func(server string) bool {
			_, calls, waiting := m.node.options.Host.State(server)
			return calls+waiting > 0
		}) {
			return
		}
	}
}

// served returns the servers of this router to which other nodes have streams.
func (m *member) served() (servers []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for t := range m.open {
		if t.name == "" {
			servers = append(servers, t.server)
		}
	}
	return servers
}
