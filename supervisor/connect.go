package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/supervisor/internal/peer"
	"github.com/mcp-metarouter/metarouter/supervisor/internal/transport"
)

// ConnectOptions are the options of [Connect]. Server, Capabilities and Log must be set.
type ConnectOptions struct {
	Server       string          // its name, in errors and for clients
	Modern       bool            // the session is of the modern era, else of the legacy one
	Owner        session.Client  // the only client; nil if several use the session
	Capabilities json.RawMessage // of the client, in the legacy era
	Version      string          // of the router

	// OnMessage is called with messages that belong to no request. It must not block. May be nil.
	OnMessage func(session.Message)

	Log *zap.Logger
}

// A Connection is a session with a server at the other end of a [net.Conn]: no process and no entry
// belong to it. It does not hear changes of the server's lists in the modern era.
type Connection struct {
	*peer.Peer
	conn  net.Conn
	ended chan struct{} // closed when no goroutine of it is left
}

// questionsPerMinute bounds the questions of a server over a connection. The router at its other end
// applies the limit of the server's entry.
const questionsPerMinute = 600

// Connect opens a session over conn, one message a line, in the era of the options only. It owns conn:
// if Connect fails, and when the session has ended, conn is closed. [Connection.Close] must be called.
func Connect(ctx context.Context, conn net.Conn, o ConnectOptions) (*Connection, error) {
	var lines *transport.Lines
	p := peer.New(peer.Host{
		Server: o.Server,
		Stray: func(line []byte, why error) {
			o.Log.Debug("skipped a line of the server, which is no message", zap.Int("bytes", len(line)), zap.Error(why))
		},
		Asked:   func(string) {},
		Limits:  peer.NewLimits(func() int { return questionsPerMinute }),
		Owner:   func() session.Client { return o.Owner },
		Message: o.OnMessage,
	}, func(c *peer.Conn) peer.Link {
		lines = transport.NewLines(conn, defaultStall, c)
		return lines
	})
	p.Subscriptions.NoLists = true
	c := &Connection{Peer: p, conn: conn, ended: make(chan struct{})}
	go c.serve(lines)
	g := peer.Greeting{Known: peer.LegacyEra, Only: true, Version: o.Version, Capabilities: o.Capabilities}
	if o.Modern {
		g.Known = peer.ModernEra
	}
	if o.Owner != nil {
		g.Client = o.Owner.ClientName()
	}
	if err := p.Handshake(ctx, g); err != nil {
		c.Close(err)
		return nil, err
	}
	p.Subscriptions.Follow(o.Log)
	return c, nil
}

// serve reads from the connection and writes to it until the session ends.
func (c *Connection) serve(lines *transport.Lines) {
	defer close(c.ended)
	eof, written := make(chan error, 1), make(chan error, 1)
	go func() { defer close(written); written <- lines.Write() }()
	go func() { defer close(eof); eof <- lines.Read(c.conn) }()
	select {
	case err := <-eof:
		if errors.Is(err, io.EOF) {
			err = errors.New("the other end has closed the connection")
		}
		c.Peer.Close(err)
	case err := <-written: // nil if the session has ended
		c.Peer.Close(fmt.Errorf("write to the connection: %w", err))
	case <-c.Done():
	}
	c.conn.Close()
	<-eof
	<-written
	c.Wait()
}

// Close ends the session and waits until no goroutine of it is left. Calls under way fail with the
// cause.
func (c *Connection) Close(cause error) {
	c.Peer.Close(cause)
	<-c.ended
}

// RefuseIfIdle lets no call begin if the session was idle for d: without a call under way and without a
// subscription. It reports whether calls are refused.
func (c *Connection) RefuseIfIdle(d time.Duration) bool {
	return len(c.Subscriptions.Wanted()) == 0 && c.Calls.IdleFor() >= d && c.Calls.RefuseUnlessBusy()
}
