package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/cluster/internal/stream"
	"github.com/mcp-metarouter/metarouter/internal/clusternode"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/status"
)

// terms are sent when a stream opens.
type terms struct {
	Server string `json:"server"` // its name on its own node; "" only tries whether a stream opens
}

// streams are the open streams of a router. The zero value has none.
type streams struct {
	mu   sync.Mutex // guards the fields below
	open map[*tracked]bool
}

// A tracked is an open stream. Close takes it out of its streams.
type tracked struct {
	*stream.Conn
	all      *streams
	server   string // its name on its own node
	incoming bool
}

func (s *streams) add(t *tracked) *tracked {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil {
		s.open = map[*tracked]bool{}
	}
	t.all, s.open[t] = s, true
	return t
}

// Close implements [net.Conn].
func (t *tracked) Close() error {
	t.all.mu.Lock()
	delete(t.all.open, t)
	t.all.mu.Unlock()
	return t.Conn.Close()
}

// which returns the streams for which is reports true.
func (s *streams) which(is func(*tracked) bool) (all []*tracked) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for t := range s.open {
		if is(t) {
			all = append(all, t)
		}
	}
	return all
}

// endStreams ends the streams that the rules, or a change of another node, no longer allow. They end at
// once: their calls are not waited for.
func (m *member) endStreams() {
	if len(m.streams.which(func(*tracked) bool { return true })) == 0 {
		return
	}
	m.mu.Lock()
	to := make(map[stream.Address]map[string]bool) // servers in use by router
	for _, r := range m.remotes {
		if to[r.router] == nil {
			to[r.router] = map[string]bool{}
		}
		to[r.router][r.Name] = true
	}
	m.mu.Unlock()
	leaving := map[stream.Address]bool{} // these end streams themselves, after calls under way
	for _, p := range m.roster.Peers() {
		leaving[p.Address] = p.Leaving && time.Since(p.LastSeen) < 2*leaveWait
	}
	for _, t := range m.streams.which(func(t *tracked) bool {
		switch {
		case !m.trusts(t.Peer.Key):
			return true
		case t.incoming:
			return !m.shares(t.server)
		}
		return !to[t.Peer][t.server] && !leaving[t.Peer]
	}) {
		_ = t.NetConn().Close() // at once, which Close of TLS may not be
	}
}

// A target is a server of another node that can be called.
type target struct {
	router       stream.Address
	node, server string
}

// dial opens a stream. The error wraps [session.ErrNotSent].
func (m *member) dial(ctx context.Context, to target) (clusternode.Stream, error) {
	name := to.server + "@" + to.node
	p := m.present.Load()
	if p == nil || !m.link.Up() {
		return clusternode.Stream{}, &status.UnavailableError{Server: name, State: status.Failed, Reason: "there is no connection to NATS"}
	}
	text, err := json.Marshal(terms{to.server})
	if err != nil {
		return clusternode.Stream{}, fmt.Errorf("%w: %w", session.ErrNotSent, err)
	}
	c, err := p.endpoint.Dial(ctx, to.router, text)
	m.noteDial(to, err)
	if err != nil {
		return clusternode.Stream{}, fmt.Errorf("%w: open a stream to %s: %w", session.ErrNotSent, name, err)
	}
	t := m.streams.add(&tracked{Conn: c, server: to.server})
	if still, _, ok := m.target(name); !ok || still.router != to.router { // it went meanwhile
		t.Close()
		return clusternode.Stream{}, &status.UnavailableError{Server: name}
	}
	return m.streamOf(t), nil
}

// noteDial notes what an attempt to open a stream says about its router.
func (m *member) noteDial(to target, err error) {
	switch {
	case err == nil, errors.Is(err, stream.ErrRefused):
		m.roster.SetTrouble(to.router, "")
	case errors.Is(err, stream.ErrUntrusted):
		m.roster.SetTrouble(to.router, untrusting)
	case errors.Is(err, stream.ErrUnreachable), errors.Is(err, stream.ErrSilent):
		m.roster.Doubt(to.router)
	}
}

func (m *member) streamOf(t *tracked) clusternode.Stream {
	return clusternode.Stream{Conn: t, Server: t.server, Key: t.Peer.Key, Node: m.roster.Name(t.Peer.Key), Lapsed: t.Lapsed, Local: t.Local}
}

// admit returns why a stream of another node is refused, nil if it is not.
func (m *member) admit(_ stream.Address, text []byte) error {
	m.mu.Lock()
	leaving := m.leaving
	m.mu.Unlock()
	var of terms
	if json.Unmarshal(text, &of) != nil || leaving || !m.shares(of.Server) {
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
		var of terms
		_ = json.Unmarshal(c.Terms, &of) // admit has read it
		t := m.streams.add(&tracked{Conn: c, server: of.Server, incoming: true})
		serving.Go(func() {
			defer t.Close()
			m.log.Debug("serving another node", zap.String("server", t.server), zap.String("key", t.Peer.Key))
			m.node.options.Host.Serve(ctx, m.streamOf(t))
		})
		if !m.trusts(c.Peer.Key) || !m.shares(of.Server) { // the rules have just changed
			m.endStreams()
		}
	}
}

// leaveWait is how long calls of other nodes may take when the router ends, and leaveAtLeast how long
// other nodes have to hear of it.
const (
	leaveWait    = 5 * time.Second
	leaveAtLeast = 300 * time.Millisecond
)

// leave says that this router leaves, and waits for the calls of other nodes under way.
func (m *member) leave() {
	m.mu.Lock()
	m.leaving = true
	m.mu.Unlock()
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
	ticker := time.NewTicker(leaveAtLeast)
	defer ticker.Stop()
	for incoming := m.streams.which(isIncoming); len(incoming) > 0; incoming = m.streams.which(isIncoming) {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		if !slices.ContainsFunc(incoming, m.isBusy) {
			return
		}
	}
}

func isIncoming(t *tracked) bool { return t.incoming }

// isBusy reports whether the server of a stream has calls.
func (m *member) isBusy(t *tracked) bool {
	_, calls, waiting := m.node.options.Host.State(t.server)
	return calls+waiting > 0
}
