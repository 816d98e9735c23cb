// Package link connects a node to NATS, and connects again whenever the connection is lost.
package link

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/signal"
)

// Options configure a Link.
type Options struct {
	Config config.Cluster
	Key    string // the public key of the node
	Log    *zap.Logger
}

// A Link is a connection to NATS. Its methods may be called by many goroutines at once.
type Link struct {
	options Options
	prefix  string // of the cluster's subjects
	masked  secrets
	cancel  context.CancelFunc
	running sync.WaitGroup

	// nats.go holds a lock while it connects, which most methods of a connection need. So the
	// dialer says whether there is a connection.
	dialer dialer
	up     atomic.Uint64             // which connection of the dialer is in use
	using  atomic.Pointer[nats.Conn] // nil before the first attempt to connect has ended
	closed chan struct{}             // has an element when the current one has given up

	changed signal.Change

	mu       sync.Mutex // guards the fields below
	state    State
	loggedAt time.Time // when a failure was logged
}

// Open begins to connect to NATS, again and again until ctx ends or Close. A mistake in files that
// the configuration names is no error, but a problem of [State]: the files may be repaired.
func Open(ctx context.Context, o Options) (*Link, error) {
	if len(o.Config.URLs) == 0 {
		return nil, errors.New(`the cluster has no "urls"; name the NATS server, such as "nats://hub:4222"`)
	}
	ctx, cancel := context.WithCancel(ctx)
	l := &Link{
		dialer:  dialer{ctx: ctx},
		options: o,
		prefix:  "metarouter." + o.Config.Name + ".",
		masked:  secretsOf(o.Config.URLs),
		cancel:  cancel,
		closed:  make(chan struct{}, 1),
	}
	l.running.Go(func() { l.run(ctx) })
	return l, nil
}

// Close ends the connection. Messages that were sent before reach NATS, if it answers within a second.
func (l *Link) Close() {
	l.cancel()
	l.running.Wait()
}

// run connects, and connects again when the connection has given up, which few errors of the server
// make it do.
func (l *Link) run(ctx context.Context) {
	var checks sync.WaitGroup
	checks.Go(func() { l.reconnect(ctx) })
	defer checks.Wait()
	defer l.dialer.close()
	for attempt := 1; ctx.Err() == nil; attempt++ {
		conn, err := l.connect()
		if err != nil {
			l.failed(err)
		} else {
			l.using.Store(conn) // it may be connecting still
			select {
			case <-l.closed:
			case <-ctx.Done():
				if conn.IsConnected() {
					conn.FlushTimeout(time.Second)
				}
				conn.Close()
				<-l.closed
			}
			l.disconnected(conn.LastError())
		}
		signal.Within(ctx.Done(), delay(attempt))
	}
}

// Up reports whether there is a connection. It never waits.
func (l *Link) Up() bool {
	last := l.dialer.count.Load()
	return last > 0 && l.up.Load() == last
}

// Conn returns the connection, nil before there is one. It changes only when [State.Epoch] does.
func (l *Link) Conn() *nats.Conn { return l.using.Load() }
