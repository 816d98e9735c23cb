package stream

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/tls"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/internal/signal"
)

// Options are of an endpoint.
type Options struct {
	Conn   *nats.Conn    // with ReconnectBufSize(-1), so that it keeps no frame for later
	Prefix string        // of all subjects, such as "metarouter.office.stream"
	Key    string        // the node's public key, an nkey of a user
	Signer crypto.Signer // its private key, Ed25519

	// Trusted reports whether a node may open streams, and be reached. It must not wait.
	Trusted func(key string) bool

	// Admit returns why a stream that another node opens is refused, nil if it is not. The dialer gets
	// the error if it is one of this package, else ErrRefused. A nil Admit refuses none.
	Admit func(peer Address, terms []byte) error

	Log *zap.Logger
}

// An Address is a router: its node's key, and the random name of its endpoint.
type Address struct{ Key, Router string }

// Network implements [net.Addr].
func (Address) Network() string { return "nats" }

// String implements [net.Addr].
func (a Address) String() string { return a.Key + "." + a.Router }

// An Endpoint has the streams of one router.
type Endpoint struct {
	options     Options
	self        Address
	own         string // what the subjects of frames to this router begin with
	certificate tls.Certificate
	sub         *nats.Subscription
	received    chan struct{} // closed after the last message
	status      chan nats.Status

	ctx    context.Context // ends with the endpoint; the cause says why
	cancel context.CancelCauseFunc
	group  sync.WaitGroup
	work   chan func() // frames that a goroutine wants sent which must not wait
	opened chan *Conn

	mu        sync.Mutex      // guards the following; it may be taken under the lock of a stream
	streams   map[string]*raw // by name
	accepting map[string]int  // handshakes of streams that others open, by the key of their node
}

// Listen makes an endpoint, which Close ends.
func Listen(o Options) (*Endpoint, error) {
	cert, err := certificate(o.Key, o.Signer)
	if err != nil {
		return nil, err
	}
	e := &Endpoint{
		options: o, self: Address{o.Key, rand.Text()}, certificate: cert,
		work: make(chan func(), maxWork), opened: make(chan *Conn), received: make(chan struct{}),
		streams: make(map[string]*raw), accepting: make(map[string]int),
	}
	e.own = e.subject(e.self, "")
	e.ctx, e.cancel = context.WithCancelCause(context.Background())
	if e.sub, err = o.Conn.Subscribe(e.own+">", e.dispatch); err != nil {
		return nil, fmt.Errorf("subscribe to the streams of this router: %w", err)
	}
	e.sub.SetClosedHandler(func(string) {
		e.cancel(ErrDisconnected) // unless Close did
		close(e.received)
	})
	e.status = o.Conn.StatusChanged(nats.DISCONNECTED, nats.RECONNECTING, nats.CLOSED)
	e.group.Go(e.run)
	return e, nil
}

// Address returns the address of this router.
func (e *Endpoint) Address() Address { return e.self }

// Close ends all streams and waits for the goroutines of the endpoint.
func (e *Endpoint) Close() {
	e.cancel(net.ErrClosed)
	e.sub.Unsubscribe()
	signal.Within(e.received, silence)
	e.group.Wait()
	e.options.Conn.RemoveStatusListener(e.status)
	for { // the last frames, which notify the other ends
		select {
		case do := <-e.work:
			do()
		default:
			return
		}
	}
}

// CloseUntrusted ends the streams of nodes that are not trusted any more. Bytes that came are dropped.
func (e *Endpoint) CloseUntrusted() {
	for _, r := range e.all() {
		if !e.options.Trusted(r.peer.Key) {
			r.end(ErrUntrusted)
		}
	}
}

func (e *Endpoint) all() []*raw {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Collect(maps.Values(e.streams))
}

func (e *Endpoint) subject(to Address, rest string) string {
	return e.options.Prefix + "." + to.String() + "." + rest
}

// chunk is how many bytes a frame may carry.
func (e *Endpoint) chunk() int {
	return max(1, min(maxChunk, int(e.options.Conn.MaxPayload())-headerSize))
}

func (e *Endpoint) publish(subject, reply string, b []byte) error {
	if err := e.options.Conn.PublishMsg(&nats.Msg{Subject: subject, Reply: reply, Data: b}); err != nil {
		return fmt.Errorf("%w: %w", ErrDisconnected, err)
	}
	return nil
}

// later has the goroutine of the endpoint do something. With too much to do it is left out: the other
// end then notices by itself.
func (e *Endpoint) later(do func()) {
	select {
	case e.work <- do:
	default:
	}
}

// run sends frames for goroutines that must not wait, and looks after all streams.
func (e *Endpoint) run() {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		select {
		case <-e.ctx.Done():
			for _, r := range e.all() {
				r.end(context.Cause(e.ctx))
			}
			return
		case do := <-e.work:
			do()
		case <-e.status:
			for _, r := range e.all() {
				r.end(ErrDisconnected)
			}
		case <-ticker.C:
			for _, r := range e.all() {
				r.tick(time.Now())
			}
		}
	}
}

// dispatch hands a message to its stream. It does not wait.
func (e *Endpoint) dispatch(m *nats.Msg) {
	name := strings.TrimPrefix(m.Subject, e.own)
	e.mu.Lock()
	r := e.streams[name]
	e.mu.Unlock()
	switch {
	case r == nil:
		e.offered(name, m.Data)
	case len(m.Data) == 0 && m.Header.Get("Status") == "503":
		r.doubt()
	default:
		r.receive(m.Data)
	}
}

// add adds a stream, which its end removes, unless there are too many.
func (e *Endpoint) add(peer Address, id string, dialed bool) (*raw, error) {
	r := &raw{
		ends: ends{e.self, peer}, endpoint: e, name: peer.Key + "." + id, dialed: dialed, clock: newClock(time.Now()),
		to: e.subject(peer, e.self.Key+"."+id), from: e.subject(e.self, peer.Key+"."+id),
	}
	r.reader.L, r.writer.L = &r.mu, &r.mu
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.ctx.Err() != nil:
		return nil, context.Cause(e.ctx)
	case len(e.streams) >= maxStreams, !dialed && isBusy(e.accepting, e.streams, peer.Key):
		return nil, ErrBusy
	}
	e.streams[r.name] = r
	if !dialed {
		r.next = 1 // the frame of kind open had 0
		e.accepting[peer.Key]++
	}
	return r, nil
}

// isBusy reports whether a node may open no more streams now. An outsider can begin handshakes in the
// name of a node, which then keep that node out, and no other.
func isBusy(accepting map[string]int, streams map[string]*raw, key string) bool {
	all, of := 0, 0
	for _, n := range accepting {
		all += n
	}
	for _, r := range streams {
		if r.peer.Key == key && !r.dialed {
			of++
		}
	}
	return all >= maxAccepts || accepting[key] >= maxAcceptsOf || of >= maxStreamsOf
}
