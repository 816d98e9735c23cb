package stream

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/layer"
)

// A stranger is on the same account and sees all frames. It publishes variants of each until the test
// ends or stop is called.
func stranger(t *testing.T, url string, active *atomic.Bool) {
	t.Helper()
	listener, sender := connect(t, url), connect(t, url)
	var mine sync.Map // the stranger's own frames, by their bytes
	_, err := listener.Subscribe(prefix+".>", func(m *nats.Msg) {
		if _, own := mine.LoadAndDelete(string(m.Data)); own || !active.Load() || len(m.Data) < headerSize {
			return
		}
		publish := func(b []byte) {
			mine.Store(string(b), true)
			sender.Publish(m.Subject, b)
		}
		flip := func(i int) []byte {
			b := bytes.Clone(m.Data)
			b[i] ^= 1 << rand.IntN(8)
			return b
		}
		next := bytes.Clone(m.Data)
		binary.BigEndian.PutUint64(next[1:], binary.BigEndian.Uint64(m.Data[1:])+1)
		bare := bytes.Clone(next)
		bare[0] &^= byte(sealed)
		end := appendFrame(nil, nil, frame{kind: closed, seq: binary.BigEndian.Uint64(next[1:]), body: []byte{byte(rand.IntN(len(reasons)))}})
		for _, b := range [][]byte{
			flip(rand.IntN(len(m.Data))), flip(len(m.Data) - 1), flip(0), next, bare, end, // forged
			m.Data[:rand.IntN(len(m.Data))], m.Data[:headerSize], {}, // truncated
			make([]byte, 10_000), // garbage
		} {
			publish(b)
		}
		sender.Publish(m.Subject, m.Data) // repeated, once
		mine.Store(string(m.Data), true)
		sender.PublishMsg(&nats.Msg{Subject: m.Subject, Header: nats.Header{"Status": {"503"}}}) // the other router is gone
	})
	if err != nil || listener.FlushTimeout(patience) != nil {
		t.Fatal(err)
	}
}

// echo sends random bytes there and back.
func echo(t *testing.T, a, b *Conn, rounds int) {
	t.Helper()
	var group sync.WaitGroup
	group.Go(func() {
		buffer := make([]byte, 20_000)
		for range rounds {
			if _, err := io.ReadFull(b, buffer); err != nil {
				t.Error("far:", err)
				return
			}
			if _, err := b.Write(buffer); err != nil {
				t.Error("far:", err)
				return
			}
		}
	})
	source := rand.NewChaCha8([32]byte{2})
	sent, got := make([]byte, 20_000), make([]byte, 20_000)
	for range rounds {
		source.Read(sent)
		if _, err := a.Write(sent); err != nil {
			t.Error("near:", err)
			break
		}
		if _, err := io.ReadFull(a, got); err != nil || !bytes.Equal(sent, got) {
			t.Error("near: the bytes differ,", err)
			break
		}
	}
	group.Wait()
}

func TestStrangerCannotEndAStream(t *testing.T) {
	layer.Integration(t)
	url := server(t)
	near, far := listen(t, url), listen(t, url)
	var active atomic.Bool
	stranger(t, url, &active)
	a, b := dial(t, near, far)
	active.Store(true)
	echo(t, a, b, 100)
	a.raw.send(ping, nil)
	start := time.Now()
	until(t, "the stream stays open for longer than an end may doubt", func() bool { return elapsed(start, time.Now()) > affirmation+2*tick })
	echo(t, a, b, 10)
	active.Store(false)
	expect.OK(t, a.Close())
	_, err := b.Read(make([]byte, 1))
	expect.Equal(t, err, io.EOF)
}

// An opening under attack fails or gives a stream that carries the right bytes, or ends.
func TestStrangerDuringTheHandshake(t *testing.T) {
	layer.Integration(t)
	url := server(t)
	near, far := listen(t, url), listen(t, url)
	var active atomic.Bool
	active.Store(true)
	stranger(t, url, &active)
	var group sync.WaitGroup
	group.Go(func() {
		for {
			c, err := far.Accept(t.Context())
			if err != nil {
				return
			}
			group.Go(func() {
				defer c.Close()
				c.SetDeadline(time.Now().Add(patience))
				io.Copy(c, c)
			})
		}
	})
	for range 10 {
		c, err := near.Dial(minute(t), far.Address(), []byte("terms"))
		if err != nil {
			if !known(err) {
				t.Error(err)
			}
			continue
		}
		c.SetDeadline(time.Now().Add(patience))
		got := make([]byte, 4)
		if _, err := c.Write([]byte("text")); err == nil {
			if _, err := io.ReadFull(c, got); err == nil && string(got) != "text" {
				t.Errorf("wrong bytes: %q", got)
			}
		}
		c.Close()
	}
	active.Store(false)
	until(t, "a stream opens without the stranger", func() bool {
		c, err := near.Dial(minute(t), far.Address(), nil)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	near.Close()
	far.Close()
	group.Wait()
}

// A flood of messages to unknown and known streams costs no stream.
func TestFlood(t *testing.T) {
	layer.Integration(t)
	url := server(t)
	near, far := listen(t, url), listen(t, url)
	a, b := dial(t, near, far)
	nc := connect(t, url)
	var group sync.WaitGroup
	group.Go(func() {
		for n := range 5000 {
			f := frame{kind: kind(n % 9), seq: uint64(n % 3), body: append([]byte{byte(n % 2)}, append([]byte(near.self.Router), make([]byte, n%3000)...)...)}
			for _, subject := range []string{a.raw.to, far.own + "x", far.own + near.self.Key + "." + far.self.Router, far.own + "a.b.c"} {
				nc.Publish(subject, appendFrame(nil, nil, f))
			}
			if n%100 == 0 {
				nc.FlushTimeout(patience)
			}
		}
	})
	echo(t, a, b, 30)
	group.Wait()
	echo(t, a, b, 1)
	if n := len(far.all()); n > 1+maxAcceptsOf {
		t.Errorf("%d streams", n)
	}
}

// A peer with the right keys that breaks the protocol loses its stream.
func TestRoguePeer(t *testing.T) {
	layer.Integration(t)
	near, far := pair(t)
	for name, test := range map[string]struct {
		rogue func(*raw)
		want  error
	}{
		"ignores the window": {func(r *raw) {
			for range window/maxChunk + 2 {
				r.send(data, make([]byte, maxChunk))
			}
		}, ErrProtocol},
		"ignores the window with small frames": {func(r *raw) {
			for range window/frameCost + 1 {
				r.send(data, []byte{1})
			}
		}, ErrProtocol},
		"sends nothing":    {func(r *raw) { r.send(data, nil) }, ErrProtocol},
		"sends bad TLS":    {func(r *raw) { r.send(data, make([]byte, 100)) }, nil},
		"acks too much":    {func(r *raw) { r.send(ack, number(1<<40)) }, ErrProtocol},
		"acks backwards":   {func(r *raw) { r.send(ack, number(0)); r.send(ack, number(1)); r.send(ack, number(0)) }, ErrProtocol},
		"acks badly":       {func(r *raw) { r.send(ack, []byte{1}) }, ErrProtocol},
		"pongs badly":      {func(r *raw) { r.send(pong, []byte{1}) }, ErrProtocol},
		"closes badly":     {func(r *raw) { r.send(closed, []byte{99}) }, ErrProtocol},
		"closes":           {func(r *raw) { r.send(closed, []byte{0}) }, io.ErrUnexpectedEOF},
		"opens again":      {func(r *raw) { r.send(open, nil) }, ErrProtocol},
		"sends a new kind": {func(r *raw) { r.send(kind(77), nil) }, ErrProtocol},
		"loses a frame":    {func(r *raw) { r.out.Lock(); r.seq++; r.out.Unlock(); r.send(ping, nil) }, ErrLost},
	} {
		a, b := dial(t, near, far)
		test.rogue(a.raw)
		if test.want == nil {
			if _, err := io.Copy(io.Discard, b); err == nil {
				t.Errorf("a peer that %s: no error", name)
			}
			continue
		}
		until(t, "the stream ends", func() bool { return errorOf(b) != nil })
		if err := errorOf(b); !errors.Is(err, test.want) {
			t.Errorf("a peer that %s: %v, want %v", name, err, test.want)
		}
	}
}

// The terms of an open message that an outsider changed do not reach Admit.
func TestTermsAreAuthentic(t *testing.T) {
	layer.Integration(t)
	url := server(t)
	near, real := listen(t, url), listen(t, url)
	real.Close()
	changed := listen(t, url, func(o *Options) {
		o.Key, o.Signer = real.options.Key, real.options.Signer
		o.Admit = func(_ Address, terms []byte) error { t.Errorf("admitted %q", terms); return nil }
	})
	changed.self, changed.own = real.self, real.own
	_, err := changed.nc.Subscribe(real.own+">", func(m *nats.Msg) {
		if f, ok := parse(m.Data); ok && f.kind == open {
			f.body[len(f.body)-1] ^= 1
		}
		changed.dispatch(m)
	})
	if err != nil || changed.nc.FlushTimeout(patience) != nil {
		t.Fatal(err)
	}
	if _, err := near.Dial(minute(t), real.self, []byte("terms")); !errors.Is(err, ErrSilent) {
		t.Error(err)
	}
}

func FuzzTake(f *testing.F) {
	f.Add(appendFrame(nil, nil, frame{kind: data, body: []byte("x")}))
	f.Add(appendFrame(nil, nil, frame{kind: open, body: make([]byte, 40)}))
	f.Fuzz(func(t *testing.T, b []byte) {
		fr, ok := parse(b)
		if ok {
			if again := appendFrame(nil, nil, fr); !bytes.Equal(again[1:atMAC], b[1:atMAC]) || !bytes.Equal(again[headerSize:], b[headerSize:]) {
				t.Error("the frame differs")
			}
		}
		r := &raw{endpoint: &Endpoint{work: make(chan func(), 1)}, clock: newClock(time.Now())}
		r.reader.L, r.writer.L = &r.mu, &r.mu
		r.take(b, time.Now())
		if ok && r.verify == nil {
			r.handle(fr, time.Now())
		}
	})
}
