package stream

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"
)

// A Conn is a stream. Read returns io.EOF after the other end called Close, and the reason if the
// stream ended otherwise; a Write then returns an error too. The owner has to call Close.
type Conn struct {
	*tls.Conn
	Peer  Address
	Terms []byte // of the dialer

	raw *raw
}

// Lapsed reports whether the other end may have given up the stream, since one of the two was frozen
// or cut off: the last time at which it said that it does not is more than 1.5 s ago,
// or the stream has ended.
func (c *Conn) Lapsed() bool {
	c.raw.mu.Lock()
	defer c.raw.mu.Unlock()
	return c.raw.err != nil || c.raw.clock.lapsed(time.Now())
}

// Local returns a time of the other end's clock as a time of ours.
func (c *Conn) Local(t time.Time) time.Time {
	c.raw.mu.Lock()
	defer c.raw.mu.Unlock()
	return t.Add(-c.raw.clock.ahead)
}

// TryWrite writes all of b, or nothing if the window has no room for it.
func (c *Conn) TryWrite(b []byte) (int, error) {
	records := len(b)>>14 + 1 // of TLS
	c.raw.mu.Lock()
	fits := c.raw.err == nil && c.raw.wrote-c.raw.taken+uint64(len(b)+2*frameCost*records) <= window
	c.raw.mu.Unlock()
	if !fits {
		return 0, nil
	}
	return c.Write(b)
}

// Close ends the stream. The other end can read the bytes that were written.
func (c *Conn) Close() error {
	c.raw.mu.Lock()
	c.raw.closing = true
	c.raw.mu.Unlock()
	return c.Conn.Close()
}

// Dial opens a stream to another router, with terms of at most 4 KiB that its Admit gets. It takes at
// most 10 s, and 3 s if the other router does not answer.
func (e *Endpoint) Dial(ctx context.Context, to Address, terms []byte) (*Conn, error) {
	switch {
	case !token(to.Router, e.self.Router) || !token(to.Key, e.self.Key) || to == e.self || len(terms) > maxTerms:
		return nil, fmt.Errorf("open a stream to %q: the address or the terms are wrong: %w", to, ErrProtocol)
	case !e.options.Trusted(to.Key):
		return nil, fmt.Errorf("open a stream to %s: %w", to, ErrUntrusted)
	case !e.options.Conn.IsConnected():
		return nil, fmt.Errorf("open a stream to %s: %w", to, ErrDisconnected)
	}
	r, err := e.add(to, rand.Text(), true)
	if err == nil {
		err = r.send(open, slices.Concat([]byte{version}, []byte(e.self.Router), terms))
	}
	var c *Conn
	if err == nil {
		c, err = r.establish(ctx, terms)
	}
	if err != nil {
		return nil, fmt.Errorf("open a stream to %s: %w", to, err)
	}
	return c, nil
}

// Accept returns the next stream that another router has opened.
func (e *Endpoint) Accept(ctx context.Context) (*Conn, error) {
	select {
	case c := <-e.opened:
		return c, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-e.ctx.Done():
		return nil, context.Cause(e.ctx)
	}
}

// token reports whether a text may be a part of a subject, like another text of ours.
func token(text, like string) bool {
	return len(text) == len(like) && strings.Trim(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") == ""
}

// offered takes the first frame of a stream that is not known. All others are dropped.
func (e *Endpoint) offered(name string, b []byte) {
	key, id, _ := strings.Cut(name, ".")
	f, ok := parse(b)
	size := 1 + len(e.self.Router)
	if !ok || f.kind != open || f.seq != 0 || len(f.body) < size || len(f.body) > size+maxTerms {
		return
	}
	peer, terms := Address{key, string(f.body[1:size])}, f.body[size:]
	if !token(key, e.self.Key) || !token(peer.Router, e.self.Router) || !token(id, e.self.Router) {
		return
	}
	var err error
	var r *raw
	switch {
	case !e.options.Trusted(key):
		err = ErrUntrusted
	case f.body[0] != version:
		err = ErrProtocol
	default:
		r, err = e.add(peer, id, false)
	}
	if err != nil {
		e.later(func() {
			e.options.Log.Debug("a stream is refused", zap.String("node", key), zap.Error(err))
			e.publish(e.subject(peer, e.self.Key+"."+id), "", appendFrame(nil, nil, frame{kind: closed, body: reason(err)}))
		})
		return
	}
	e.group.Go(func() { e.accept(r, terms) })
}

// accept does the handshake of a stream that another router opens, and hands it to Accept.
func (e *Endpoint) accept(r *raw, terms []byte) {
	defer func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.accepting[r.peer.Key]--; e.accepting[r.peer.Key] == 0 {
			delete(e.accepting, r.peer.Key)
		}
	}()
	c, err := r.establish(e.ctx, terms)
	if err != nil {
		e.options.Log.Debug("a stream was not opened", zap.String("node", r.peer.Key), zap.Error(err))
		return
	}
	select {
	case e.opened <- c:
	case <-e.ctx.Done():
	}
}

// establish does the handshake. It ends the stream if that fails.
func (r *raw) establish(ctx context.Context, terms []byte) (*Conn, error) {
	limited, cancel := context.WithTimeout(ctx, handshakeTime)
	defer cancel()
	c := &Conn{Peer: r.peer, Terms: terms, raw: r}
	err := c.handshake(limited)
	switch {
	case err == nil:
		return c, nil
	case ctx.Err() != nil:
		r.end(net.ErrClosed)
		return nil, ctx.Err()
	case limited.Err() != nil:
		err = ErrSilent
	case !known(err) && !errors.Is(err, errClosed) && !errors.Is(err, net.ErrClosed):
		err = fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	r.end(err)
	if errors.Is(err, errClosed) {
		return nil, ErrRefused
	}
	return nil, err
}

// handshake returns once both ends have proved their keys, the acceptor admits the stream, and this
// end knows the other end's clock.
func (c *Conn) handshake(ctx context.Context) error {
	r, e := c.raw, c.raw.endpoint
	config := tlsConfig(e.certificate, c.Peer.Key, e.options.Trusted)
	c.Conn = tls.Server(r, config)
	dialer, acceptor := c.Peer, e.self
	if r.dialed {
		c.Conn = tls.Client(r, config)
		dialer, acceptor = acceptor, dialer
	}
	if err := c.HandshakeContext(ctx); err != nil {
		return err
	}
	// Who opened the stream, and the terms, came in the clear: the keys depend on them.
	binding := sha256.New()
	_, id, _ := strings.Cut(r.name, ".")
	for _, part := range []string{dialer.String(), acceptor.String(), id, string(c.Terms)} {
		binding.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
		binding.Write([]byte(part))
	}
	state := c.ConnectionState()
	keys, err := state.ExportKeyingMaterial("EXPORTER-metarouter-frames", binding.Sum(nil), 64)
	if err != nil {
		return err
	}
	r.secure(keys[:32], keys[32:])
	if err := r.send(ping, nil); err != nil {
		return err
	}
	if r.dialed {
		return r.await(ctx, func() bool { return r.accepted && r.clock.measured })
	}
	if err := r.await(ctx, func() bool { return r.clock.affirmed != 0 }); err != nil {
		return err
	}
	if admit := e.options.Admit; admit != nil {
		if err := admit(c.Peer, c.Terms); known(err) {
			return err
		} else if err != nil {
			return fmt.Errorf("%w: %w", ErrRefused, err)
		}
	}
	if err := r.send(accept, nil); err != nil {
		return err
	}
	return r.await(ctx, func() bool { return r.clock.measured })
}
