package stream

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
	"go.uber.org/goleak"
	"go.uber.org/zap/zaptest"

	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/layer"
	"github.com/mcp-metarouter/metarouter/test/natsserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = time.Minute

func minute(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

func until(t testing.TB, what string, done func() bool) {
	t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	poll := time.NewTicker(time.Millisecond)
	defer poll.Stop()
	for !done() {
		select {
		case <-poll.C:
		case <-deadline.C:
			t.Fatalf("%s: it does not happen", what)
		}
	}
}

// A node is a key with an endpoint and a connection of its own.
type node struct {
	*Endpoint
	nc       *nats.Conn
	distrust atomic.Pointer[string] // the key that is not trusted
}

func newKey(t testing.TB) (string, ed25519.PrivateKey) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	expect.OK(t, err)
	key, err := nkeys.Encode(nkeys.PrefixByteUser, public)
	expect.OK(t, err)
	return string(key), private
}

func connect(t testing.TB, url string) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect(url, nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond), nats.ReconnectBufSize(-1), nats.Timeout(patience))
	expect.OK(t, err)
	t.Cleanup(nc.Close)
	return nc
}

const prefix = "metarouter.test.stream"

func listen(t testing.TB, url string, change ...func(*Options)) *node {
	t.Helper()
	n := &node{nc: connect(t, url)}
	o := Options{Conn: n.nc, Prefix: prefix, Log: zaptest.NewLogger(t), Trusted: func(key string) bool {
		d := n.distrust.Load()
		return d == nil || *d != key
	}}
	o.Key, o.Signer = newKey(t)
	for _, c := range change {
		c(&o)
	}
	e, err := Listen(o)
	expect.OK(t, err)
	expect.OK(t, n.nc.FlushTimeout(patience))
	n.Endpoint = e
	t.Cleanup(e.Close)
	return n
}

func server(t testing.TB) string {
	return natsserver.Start(t, natsserver.Options{NoJetStream: true}).URL()
}

func pair(t testing.TB) (near, far *node) {
	url := server(t)
	return listen(t, url), listen(t, url)
}

// dial opens a stream and returns both ends.
func dial(t testing.TB, near, far *node) (a, b *Conn) {
	t.Helper()
	accepted := make(chan *Conn, 1)
	go func() {
		c, _ := far.Accept(minute(t))
		accepted <- c
	}()
	a, err := near.Dial(minute(t), far.Address(), []byte("terms"))
	expect.OK(t, err)
	if b = <-accepted; b == nil {
		t.Fatal("no stream was accepted")
	}
	t.Cleanup(func() { a.Close(); b.Close() })
	for _, c := range []*Conn{a, b} {
		c.SetDeadline(time.Now().Add(patience))
	}
	return a, b
}

// exchange sends bytes both ways.
func exchange(t testing.TB, a, b *Conn) {
	t.Helper()
	for _, ends := range [][2]*Conn{{a, b}, {b, a}} {
		text := fmt.Sprint("hello ", rand.Uint64())
		_, err := ends[0].Write([]byte(text))
		expect.OK(t, err)
		got := make([]byte, len(text))
		if _, err := io.ReadFull(ends[1], got); err != nil || string(got) != text {
			t.Fatalf("%q, %v", got, err)
		}
	}
}

// errorOf returns why a stream has ended, nil while it goes on.
func errorOf(c *Conn) error {
	c.raw.mu.Lock()
	defer c.raw.mu.Unlock()
	return c.raw.err
}

// ended waits until a Read fails for the reason, and a Write too.
func ended(t testing.TB, c *Conn, reason error) {
	t.Helper()
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, reason) {
		t.Errorf("Read: %v, want %v", err, reason)
	}
	until(t, "Write has an error", func() bool { _, err := c.Write([]byte("x")); return err != nil && c.Lapsed() })
}

func TestStream(t *testing.T) {
	layer.Integration(t)
	near, far := pair(t)
	a, b := dial(t, near, far)
	if string(b.Terms) != "terms" || b.Peer != near.Address() || a.Peer != far.Address() || a.Lapsed() || b.Lapsed() {
		t.Errorf("%q %v %v", b.Terms, a.Peer, b.Peer)
	}
	if a.RemoteAddr() != net.Addr(a.Peer) || b.LocalAddr() != net.Addr(a.Peer) {
		t.Error(a.RemoteAddr(), b.LocalAddr())
	}
	exchange(t, a, b)
	_, err := a.Write([]byte("last"))
	expect.OK(t, err)
	expect.OK(t, a.Close())
	if got, err := io.ReadAll(b); err != nil || string(got) != "last" {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := a.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
	ended(t, b, io.EOF)
	until(t, "the endpoints forget the stream", func() bool { return len(near.all())+len(far.all()) == 0 })
}

func TestManyBytes(t *testing.T) {
	layer.Integration(t)
	near, far := pair(t)
	a, b := dial(t, near, far)
	var group sync.WaitGroup
	for _, ends := range [][2]*Conn{{a, b}, {b, a}} {
		const size = 10 << 20
		sent, got := sha256.New(), sha256.New()
		group.Go(func() {
			source := rand.NewChaCha8([32]byte{1})
			if n, err := io.CopyN(io.MultiWriter(ends[0], sent), source, size); n != size || err != nil {
				t.Error(n, err)
			}
		})
		group.Go(func() {
			if n, err := io.CopyN(got, ends[1], size); n != size || err != nil {
				t.Error(n, err)
			}
		})
		defer func() {
			expect.Equal(t, [32]byte(sent.Sum(nil)), [32]byte(got.Sum(nil)), "the sum of the bytes")
		}()
	}
	group.Wait()
}

func TestWindow(t *testing.T) {
	layer.Integration(t)
	near, far := pair(t)
	a, b := dial(t, near, far)
	a.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
	n, err := a.Write(make([]byte, 2*window))
	if !errors.Is(err, os.ErrDeadlineExceeded) || n >= window {
		t.Errorf("%d bytes were written, %v", n, err)
	}
	a.Close()
	if got, err := io.ReadAll(b); err == nil || len(got) < n || len(got) > window {
		t.Errorf("%d bytes, %v; want %d and an error", len(got), err, n)
	}

	a, b = dial(t, near, far)
	done := make(chan error, 1)
	go func() { _, err := a.Write(make([]byte, 2*window)); done <- err }()
	until(t, "the window is full", func() bool {
		a.raw.mu.Lock()
		defer a.raw.mu.Unlock()
		return a.raw.wrote > window-20<<10
	})
	a.Close()
	if err := <-done; !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
	b.SetReadDeadline(time.Now().Add(-1))
	if _, err := b.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error(err)
	}
}

func TestCloseWithAFullWindow(t *testing.T) {
	layer.Integration(t)
	near, far := pair(t)
	a, b := dial(t, near, far)
	b.SetReadDeadline(time.Time{})
	written := 0
	for {
		a.raw.mu.Lock()
		room := window - (a.raw.wrote - a.raw.taken)
		a.raw.mu.Unlock()
		if room < 2*frameCost+30 {
			break
		}
		n, err := a.Write(make([]byte, min(int(room)-frameCost-22, 16<<10)))
		expect.OK(t, err)
		written += n
	}
	a.Close()
	if got, err := io.ReadAll(b); err != nil || len(got) != written {
		t.Error(len(got), written, err)
	}
}

func TestDialErrors(t *testing.T) {
	layer.Integration(t)
	url := server(t)
	near := listen(t, url)
	other, _ := newKey(t)
	admit := ErrBusy
	far := listen(t, url, func(o *Options) {
		o.Admit = func(_ Address, terms []byte) error {
			if string(terms) == "busy" {
				return admit
			}
			return errors.New("no such server")
		}
	})
	fails := func(to Address, terms string, want error) {
		t.Helper()
		c, err := near.Dial(minute(t), to, []byte(terms))
		if c != nil || !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
	}
	fails(Address{other, far.Address().Router}, "", ErrUnreachable)
	fails(Address{far.Address().Key, near.Address().Router}, "", ErrUnreachable)
	fails(Address{far.Address().Key, ">"}, "", ErrProtocol)
	fails(far.Address(), strings.Repeat("x", maxTerms+1), ErrProtocol)
	fails(far.Address(), "busy", ErrBusy)
	fails(far.Address(), "", ErrRefused)
	fails(far.Address(), "", session.ErrForbidden)
	far.distrust.Store(&near.self.Key)
	fails(far.Address(), "", ErrUntrusted)
	near.distrust.Store(&far.self.Key)
	fails(far.Address(), "", ErrUntrusted)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	near.distrust.Store(nil)
	if _, err := near.Dial(ctx, far.Address(), nil); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	far.Close()
	expect.OK(t, far.nc.FlushTimeout(patience)) // NATS knows that it does not subscribe any more
	fails(far.Address(), "", ErrUnreachable)
	near.nc.Close()
	fails(far.Address(), "", ErrDisconnected)
	if _, err := near.Accept(minute(t)); !errors.Is(err, ErrDisconnected) {
		t.Error(err)
	}
}

// A subscriber that is no router keeps a Dial from being refused at once.
func TestDialSilent(t *testing.T) {
	layer.Integration(t)
	url := server(t)
	near := listen(t, url)
	other, _ := newKey(t)
	to := Address{other, near.Address().Router}
	stranger := connect(t, url)
	if _, err := stranger.SubscribeSync(near.subject(to, ">")); err != nil || stranger.Flush() != nil {
		t.Fatal(err)
	}
	if _, err := near.Dial(minute(t), to, nil); !errors.Is(err, ErrSilent) {
		t.Error(err)
	}
}

// A router with another key answers on the subject.
func TestWrongKey(t *testing.T) {
	layer.Integration(t)
	url := server(t)
	near, real, impostor := listen(t, url), listen(t, url), listen(t, url)
	// The impostor subscribes to the subjects of far's router, and proves a key of its own.
	real.Close()
	impostor.self = real.self
	impostor.own = real.own
	if _, err := impostor.nc.Subscribe(real.own+">", impostor.dispatch); err != nil || impostor.nc.Flush() != nil {
		t.Fatal(err)
	}
	if _, err := near.Dial(minute(t), real.self, nil); !errors.Is(err, ErrUntrusted) {
		t.Error(err)
	}
}

func TestCloseUntrusted(t *testing.T) {
	layer.Integration(t)
	near, far := pair(t)
	a, b := dial(t, near, far)
	near.CloseUntrusted()
	exchange(t, a, b)
	near.distrust.Store(&far.self.Key)
	near.CloseUntrusted()
	ended(t, a, ErrUntrusted)
	ended(t, b, ErrUntrusted)
}

func TestEndpointCloses(t *testing.T) {
	layer.Integration(t)
	near, far := pair(t)
	a, b := dial(t, near, far)
	near.Close()
	near.Close()
	ended(t, a, net.ErrClosed)
	ended(t, b, io.ErrUnexpectedEOF)
	if _, err := near.Accept(minute(t)); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
	if _, err := near.Dial(minute(t), far.Address(), nil); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
}

func TestManyStreams(t *testing.T) {
	layer.Integration(t)
	near, far := pair(t)
	go func() {
		for {
			c, err := far.Accept(t.Context())
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				io.Copy(c, c)
			}()
		}
	}()
	var group sync.WaitGroup
	conns := make(chan *Conn, maxStreamsOf)
	for range 8 {
		group.Go(func() {
			for range maxStreamsOf / 8 {
				c, err := near.Dial(minute(t), far.Address(), nil)
				for ; errors.Is(err, ErrBusy); c, err = near.Dial(minute(t), far.Address(), nil) {
					time.Sleep(10 * time.Millisecond) // a try before, given up on a busy machine, counts for a while
				}
				if err != nil {
					t.Error(err)
					return
				}
				conns <- c
			}
		})
	}
	group.Wait()
	close(conns)
	if _, err := near.Dial(minute(t), far.Address(), nil); !errors.Is(err, ErrBusy) {
		t.Error(err)
	}
	for c := range conns {
		group.Go(func() {
			defer c.Close()
			c.SetDeadline(time.Now().Add(patience))
			b := bytes.Repeat([]byte("x"), 10_000)
			if _, err := c.Write(b); err != nil {
				t.Error(err)
			} else if _, err := io.ReadFull(c, b); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	until(t, "the streams end", func() bool { return len(far.all()) == 0 })
}

// Writers take turns, and Close ends all that wait.
func TestConcurrentUse(t *testing.T) {
	layer.Integration(t)
	near, far := pair(t)
	a, b := dial(t, near, far)
	const writers, rounds, size = 8, 50, 3000
	var group sync.WaitGroup
	for i := range writers {
		group.Go(func() {
			for range rounds {
				if _, err := a.Write(bytes.Repeat([]byte{byte(i)}, size)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	counts := make([]int, writers)
	for record := make([]byte, size); ; {
		_, err := io.ReadFull(b, record)
		expect.OK(t, err)
		if !bytes.Equal(record, bytes.Repeat(record[:1], size)) {
			t.Fatal("records are mixed")
		}
		if counts[record[0]]++; slices.Min(counts) == rounds {
			break
		}
	}
	group.Wait()

	for _, c := range []*Conn{a, b} {
		c.SetDeadline(time.Time{})
		group.Go(func() { io.Copy(io.Discard, c) })
	}
	for range 4 {
		group.Go(func() {
			for _, err := a.Write(make([]byte, window)); err == nil; {
				_, err = a.Write(make([]byte, window))
			}
		})
		group.Go(func() { a.Lapsed(); a.Close(); near.CloseUntrusted() })
	}
	group.Wait()
}
