package adapter

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nkeys"
	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/internal/clusternode"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/signal"
	"github.com/mcp-metarouter/metarouter/supervisor"
)

// remotes are the streams to servers of other nodes. All clients share one to each server, which
// speaks the modern era: each request is complete in itself. A client with a session that can be asked
// has a stream of its own, of the legacy era, to a server that asks: it has a session there, too.
type remotes struct {
	node    clusterNode
	version string // of this router
	log     *zap.Logger
	hear    func(server string, owner session.Client, m session.Message) // called with messages that belong to no request

	life    context.Context // of all streams
	end     context.CancelCauseFunc
	running sync.WaitGroup // their goroutines

	level atomic.Pointer[string] // of the log messages that legacy clients want; nil before they have said so

	mu  sync.Mutex // guards all, and the calls of each stream; also held when running grows
	all map[streamKey]*remoteStream
}

// A streamKey identifies a stream.
type streamKey struct {
	server string         // such as gpu@box
	home   session.Client // of the only client; nil if all clients share the stream
}

// A remoteStream is a session with a server of another node, over a stream. A call after its end is not sent, and
// the caller opens another one.
type remoteStream struct {
	remotes      *remotes
	key          streamKey
	capabilities json.RawMessage // of the only client
	end          context.CancelCauseFunc
	calls        int  // under way
	forgotten    bool // the server was: no call begins, and the last one ends the stream

	ready chan struct{} // closed when the fields below are set
	err   error         // why it could not be opened
	*supervisor.Connection
	to     clusternode.Stream
	public ed25519.PublicKey // of the node
	warned sync.Once         // of a result without signature
}

const (
	maxRemoteStreams = 2000
	dialTime         = 5 * time.Second // for all attempts
	firstRedial      = 100 * time.Millisecond
	lastRedial       = 500 * time.Millisecond
	remoteIdle       = 5 * time.Minute // after which a shared stream without calls and subscriptions ends
	lastCalls        = 5 * time.Minute // for the calls under way when a server is forgotten
)

var (
	errLeft      = errors.New("this router has left the cluster")
	errForgotten = errors.New("its node has left, or no longer shares the server; see: metarouter nodes")
	errUnused    = errors.New("the stream was not used for a while")
	errFull      = fmt.Errorf("%d streams to other nodes are open", maxRemoteStreams)
	errGone      = errors.New("its client has left")
)

func newRemotes(node clusterNode, r *Router) *remotes {
	m := r.members
	all := &remotes{
		node: node, version: r.options.Version, log: m.log, all: make(map[streamKey]*remoteStream),
		hear: func(server string, owner session.Client, one session.Message) {
			r.hear(m.services.grouping().name(server), owner, one)
		},
	}
	all.life, all.end = context.WithCancelCause(context.Background())
	return all
}

// close ends all streams, and waits until no goroutine of them is left.
func (r *remotes) close() {
	r.mu.Lock()
	r.end(errLeft)
	r.mu.Unlock()
	r.running.Wait()
}

// Session returns a session with a server for a client, as [execute.Sessions] says. It opens the stream
// if it does not exist.
func (r *remotes) Session(ctx context.Context, server string, from session.Client) (session.Session, error) {
	key, capabilities := streamKey{server: server}, json.RawMessage(nil)
	if terms, _ := r.node.Terms(server); terms.Asks && from != nil {
		if home := from.Home(); home != nil && session.AnswersAny(from.Capabilities()) {
			key.home, capabilities = home, from.Capabilities()
		}
	}
	stream, err := r.open(ctx, key, capabilities)
	if err != nil {
		return nil, err
	}
	return stream, nil
}

// open returns the stream, and opens it if it does not exist or has ended: for a client with these
// capabilities if it is one client's. It waits until ctx ends.
func (r *remotes) open(ctx context.Context, key streamKey, capabilities json.RawMessage) (*remoteStream, error) {
	r.mu.Lock()
	s := r.all[key]
	if s == nil || signal.IsClosed(s.ready) && (s.err != nil || !s.Usable()) {
		full := len(r.all) >= maxRemoteStreams
		if err := context.Cause(r.life); err != nil || full {
			r.mu.Unlock()
			return nil, fmt.Errorf("%w: %w", session.ErrNotSent, cmp.Or(err, errFull))
		}
		s = &remoteStream{remotes: r, key: key, capabilities: capabilities, ready: make(chan struct{})}
		var life context.Context
		life, s.end = context.WithCancelCause(r.life)
		r.all[key] = s
		r.running.Go(func() { r.serve(life, s) })
	}
	r.mu.Unlock()
	if !signal.IsClosed(s.ready) { // so that ctx.Done is called by those that wait only
		select {
		case <-s.ready:
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: node %q has not answered yet", session.ErrNotSent, key.server[strings.LastIndexByte(key.server, '@')+1:])
		}
	}
	return s, s.err
}

// serve opens a stream and keeps it until it ends, is not used any more, or life ends.
func (r *remotes) serve(life context.Context, s *remoteStream) {
	defer s.end(nil)
	if s.err = r.connect(life, s); s.err != nil && life.Err() != nil {
		s.err = fmt.Errorf("%w: %w", session.ErrNotSent, context.Cause(life))
	}
	close(s.ready)
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.all[s.key] == s {
			delete(r.all, s.key)
		}
	}()
	if s.err != nil {
		return
	}
	check := time.NewTicker(remoteIdle / 5)
	defer check.Stop()
	for {
		select {
		case <-check.C:
			if s.key.home == nil && s.RefuseIfIdle(remoteIdle) {
				s.Close(errUnused)
				return
			}
		case <-life.Done():
			s.Close(context.Cause(life))
			return
		case <-s.Done():
			s.Close(nil)
			return
		}
	}
}

// dial opens a connection to a server. It tries again after a failure until dialTime is over, since NATS
// may be away for a moment; not if the other node refuses, or no node has the server any more.
func (r *remotes) dial(life context.Context, server string) (to clusternode.Stream, err error) {
	ctx, cancel := context.WithTimeout(life, dialTime)
	defer cancel()
	for pause := firstRedial; ; pause = min(2*pause, lastRedial) {
		next, failed := r.node.Dial(ctx, server)
		if failed == nil {
			return next, nil
		}
		if err == nil || ctx.Err() == nil { // else the failure before says more
			err = failed
		}
		if _, known := r.node.Terms(server); !known || errors.Is(err, session.ErrForbidden) {
			return to, err
		}
		if signal.Within(ctx.Done(), pause) {
			return to, err
		}
	}
}

// connect opens a stream.
func (r *remotes) connect(life context.Context, s *remoteStream) (err error) {
	if s.to, err = r.dial(life, s.key.server); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(life, dialTime)
	defer cancel()
	if s.public, err = nkeys.Decode(nkeys.PrefixByteUser, []byte(s.to.Key)); err != nil {
		s.to.Close()
		return fmt.Errorf("%w: the key of node %q: %w", session.ErrNotSent, s.to.Node, err)
	}
	o := supervisor.ConnectOptions{
		Server: s.key.server, Modern: s.key.home == nil, Version: r.version, Log: r.log,
		OnMessage: func(m session.Message) { r.hear(s.key.server, s.key.home, m) },
		Owner:     s.key.home, Capabilities: s.capabilities,
	}
	if s.Connection, err = supervisor.Connect(ctx, s.to.Conn, o); err != nil {
		return fmt.Errorf("%w: open a session with node %q: %w", session.ErrNotSent, s.to.Node, err)
	}
	if level := r.level.Load(); level != nil {
		s.SetLevel(ctx, *level)
	}
	return nil
}

// opened returns the streams that are open and have the property.
func (r *remotes) opened(has func(streamKey) bool) (some []*remoteStream) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, s := range r.all {
		if has(key) && signal.IsClosed(s.ready) && s.err == nil {
			some = append(some, s)
		}
	}
	return some
}

// Forget ends the streams to a server, each after its calls under way. Subscriptions do not keep it.
func (r *remotes) Forget(server string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, s := range r.all {
		if key.server != server {
			continue
		}
		delete(r.all, key)
		if s.forgotten = true; s.calls == 0 {
			s.end(errForgotten)
		} else {
			time.AfterFunc(lastCalls, func() { s.end(errForgotten) })
		}
	}
}

// begin counts a call over a stream. It returns false if the server was forgotten.
func (r *remotes) begin(s *remoteStream) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !s.forgotten {
		s.calls++
	}
	return !s.forgotten
}

// done ends a call that begin counted.
func (r *remotes) done(s *remoteStream) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s.calls--; s.calls == 0 && s.forgotten {
		s.end(errForgotten)
	}
}

// Release ends the streams of a client, and does not wait for them. home is its session.
func (r *remotes) Release(home session.Client) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, s := range r.all {
		if key.home == home {
			delete(r.all, key)
			s.end(errGone)
		}
	}
}

// Notify sends a notification over the streams of a client. It does not wait.
func (r *remotes) Notify(home session.Client, method string, params json.RawMessage) {
	for _, s := range r.opened(func(key streamKey) bool { return key.home == home }) {
		s.NotifyLater(method, params)
	}
}

// SetLevel asks for log messages from the level on for clients of the legacy era: at once over their own
// streams, else with each request. It waits at most two seconds.
func (r *remotes) SetLevel(ctx context.Context, level string) {
	r.level.Store(&level)
	var setting sync.WaitGroup
	for _, s := range r.opened(func(key streamKey) bool { return key.home != nil }) {
		setting.Go(func() { s.SetLevel(ctx, level) })
	}
	setting.Wait()
}
