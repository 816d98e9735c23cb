package link

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/cluster/internal/count"
	"github.com/mcp-metarouter/metarouter/cluster/internal/frame"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/nodeidentity"
	"github.com/mcp-metarouter/metarouter/internal/signal"
)

// Bounds of received messages that wait for the handler. Messages beyond them are dropped.
const (
	maxPendingFrames = 65_536
	maxPendingBytes  = 64 << 20
)

// defaultPayload is NATS's limit for messages until the server's is known, in bytes.
const defaultPayload = 1 << 20

// Options configure a Link.
type Options struct {
	Config   config.Cluster
	Identity *nodeidentity.Identity
	Counts   *count.Counts // of frames that are dropped; may be nil
	Log      *zap.Logger   // may be nil
}

// A Link is a connection to NATS, which comes back whenever it is lost. Its methods may be called
// by many goroutines at once.
type Link struct {
	options Options
	self    frame.Address
	prefix  string // of the subjects
	masked  secrets
	cancel  context.CancelFunc
	ended   chan struct{}
	receive atomic.Pointer[func(*frame.Frame)]
	group   group
	memory  sync.Pool // of *[]byte, which frames are written to: NATS's client copies them
	bundles sync.Pool // of *frame.Bundle

	// nats.go holds a lock while it connects, which most methods of a connection need. So Send asks
	// the connection for nothing while the dialer connects.
	dialer dialer
	up     atomic.Uint64           // which connection of the dialer is in use
	limit  atomic.Int64            // bytes of a message; 0 before the first connection
	using  atomic.Pointer[current] // nil before the first attempt to connect has ended
	closed chan struct{}           // has an element when the current one has given up
	check  chan struct{}           // has an element when JetStream is to be checked again

	subscribing sync.Mutex                    // guards subs; held while a connection is asked
	subs        map[string]*nats.Subscription // by subject

	mu      sync.Mutex // guards the fields below
	state   state
	changed signal.Change
}

// A current has the values of one connection.
type current struct {
	conn *nats.Conn
	js   jetstream.JetStream
}

// Open begins to connect to NATS, again and again until ctx ends or Close. A mistake in files that
// the configuration names is no error, but a problem of [State]: the files may be repaired.
func Open(ctx context.Context, o Options) (*Link, error) {
	if len(o.Config.URLs) == 0 {
		return nil, errors.New(`the cluster has no "urls"; name the NATS server, such as "nats://hub:4222"`)
	}
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	ctx, cancel := context.WithCancel(ctx)
	l := &Link{
		dialer:  dialer{ctx: ctx},
		options: o,
		self:    frame.Address{Key: o.Identity.Key(), Instance: rand.Text()},
		prefix:  "metarouter." + o.Config.Name + ".",
		masked:  secretsOf(o.Config.URLs),
		cancel:  cancel,
		ended:   make(chan struct{}),
		closed:  make(chan struct{}, 1),
		check:   make(chan struct{}, 1),
	}
	go l.run(ctx)
	return l, nil
}

// Close ends the connection. Frames that were sent before reach NATS, if it answers within a second.
func (l *Link) Close() {
	l.cancel()
	<-l.ended
}

// run connects, and connects again when the connection has given up, which few errors of the server
// make it do.
func (l *Link) run(ctx context.Context) {
	defer close(l.ended)
	var checks sync.WaitGroup
	checks.Go(func() { l.examine(ctx) })
	defer checks.Wait()
	defer l.dialer.close()
	for attempt := 1; ctx.Err() == nil; attempt++ {
		conn, err := l.connect()
		if err != nil {
			l.failed(err)
		} else {
			l.adopt(conn)
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
		select {
		case <-time.After(delay(attempt)):
		case <-ctx.Done():
		}
	}
}

// adopt makes a connection, which may be connecting still, the current one.
func (l *Link) adopt(conn *nats.Conn) {
	l.subscribing.Lock()
	defer l.subscribing.Unlock()
	if now := l.using.Load(); now != nil && now.conn == conn {
		return
	}
	js, _ := jetstream.New(conn) // fails for bad options only, and there are no options
	l.using.Store(&current{conn, js})
	l.subs = nil
	l.subscribe(conn)
}

// Receive has handle called with each frame for this router, and with each frame for all, including
// its own. Frames for this router come one after the other, and so do frames for all, but one of
// each may come at the same time. handle must not wait: frames that come meanwhile are dropped
// beyond a bound.
func (l *Link) Receive(handle func(*frame.Frame)) {
	l.receive.Store(&handle)
	l.subscribing.Lock()
	defer l.subscribing.Unlock()
	if now := l.using.Load(); now != nil {
		l.subscribe(now.conn)
	}
}

// subscribe makes the subscriptions that do not exist yet, if there is a handler. l.subscribing must be held.
func (l *Link) subscribe(conn *nats.Conn) {
	if l.receive.Load() == nil {
		return
	}
	if l.subs == nil {
		l.subs = make(map[string]*nats.Subscription)
	}
	for _, to := range []frame.Address{l.self, {}} {
		subject := l.subject(to)
		if to == (frame.Address{}) {
			subject = l.prefix + beats + "*"
		}
		if l.subs[subject] != nil {
			continue
		}
		sub, err := conn.Subscribe(subject, func(m *nats.Msg) { l.take(m.Subject, m.Data, to) })
		if err != nil {
			return // the connection has just ended for good; the next one is adopted
		}
		sub.SetPendingLimits(maxPendingFrames, maxPendingBytes)
		l.subs[subject] = sub
	}
}

// take decodes the data of a subject, sent to an address.
func (l *Link) take(subject string, data []byte, to frame.Address) {
	all, err := frame.DecodeAll(data)
	switch version := new(frame.VersionError); {
	case errors.As(err, &version):
		l.options.Counts.Dropped(count.Version)
		l.otherVersion(version)
	case err != nil:
		l.options.Counts.Dropped(count.Garbage)
	}
	for _, f := range all {
		if f.Header.To != to {
			l.options.Counts.Dropped(count.Recipient)
			continue
		}
		if key, ok := strings.CutPrefix(subject, l.prefix+beats); ok && key != f.Header.From.Key {
			l.options.Counts.Dropped(count.Signature)
			continue
		}
		(*l.receive.Load())(f)
	}
}

// beats is before the key in the subjects of frames to all. Each node has its own subject, so that
// NATS's permissions can keep others from sending in its name: a flood of forged beats would keep
// the genuine ones from being checked.
const beats = "beat."

// subject is where frames to an address go.
func (l *Link) subject(to frame.Address) string {
	if to == (frame.Address{}) {
		return l.prefix + beats + l.self.Key
	}
	return l.prefix + "to." + to.Key + "." + to.Instance
}

// Self implements [Wire].
func (l *Link) Self() frame.Address { return l.self }

// MaxPayload implements [Wire]. The other half of a frame is for the header.
func (l *Link) MaxPayload() int { return l.maxFrame() / 2 }

func (l *Link) maxFrame() int {
	size := l.limit.Load()
	if size <= 0 {
		size = defaultPayload
	}
	return int(min(size, frame.MaxFrame))
}

// Send implements [Wire]. A frame that NATS does not carry is an error that wraps [frame.ErrTooLarge].
func (l *Link) Send(to frame.Address, h frame.Header, payload []byte) error {
	now := l.using.Load()
	if now == nil || !l.isUp() {
		return ErrDisconnected
	}
	h.From, h.To, h.Time = l.self, to, time.Now().UnixMilli()
	memory, _ := l.memory.Get().(*[]byte)
	if memory == nil {
		memory = new([]byte)
	}
	defer l.memory.Put(memory)
	data, err := frame.Append(*memory, h, payload, nil)
	if err != nil {
		return err
	}
	*memory = data
	if h.Kind == frame.Part {
		return l.publish(now.conn, to, data)
	}
	return l.group.send(&sending{to: to, data: data, payload: len(payload)}, func(all []*sending) { l.publishAll(now.conn, all) })
}

// publishAll sends frames, those to one router together.
func (l *Link) publishAll(conn *nats.Conn, all []*sending) {
	for len(all) > 0 {
		same, others := all[:0:0], all[:0:0]
		for _, one := range all {
			if one.to == all[0].to {
				same = append(same, one)
			} else {
				others = append(others, one)
			}
		}
		for len(same) > 0 {
			same = l.publishSome(conn, same)
		}
		all = others
	}
}

// publishSome sends the first of some frames to one router, as many as go together, and returns the
// others.
func (l *Link) publishSome(conn *nats.Conn, all []*sending) (rest []*sending) {
	b, _ := l.bundles.Get().(*frame.Bundle)
	if b == nil {
		b = new(frame.Bundle)
	}
	b.Reset()
	defer l.bundles.Put(b)
	n := 0
	for n < len(all) && len(all) > 1 && b.Add(all[n].data, all[n].payload, l.maxFrame()) {
		n++
	}
	var data []byte
	var err error
	if n > 1 {
		data, err = b.Encode(l.options.Identity)
	} else {
		n = 1
		data, err = frame.Sign(all[0].data, all[0].payload, l.options.Identity)
	}
	if err == nil {
		err = l.publish(conn, all[0].to, data)
	}
	for _, one := range all[:n] {
		one.err = err
	}
	return all[n:]
}

func (l *Link) publish(conn *nats.Conn, to frame.Address, data []byte) error {
	if !l.isUp() { // it takes some time to sign
		return ErrDisconnected
	}
	switch err := conn.Publish(l.subject(to), data); {
	case err == nil:
		return nil
	case errors.Is(err, nats.ErrMaxPayload):
		return fmt.Errorf("%w: it has %d bytes, the NATS server allows %d", frame.ErrTooLarge, len(data), l.limit.Load())
	default: // the connection was lost just now, and no frame is kept for the next one
		return fmt.Errorf("%w: %w", ErrDisconnected, err)
	}
}

// isUp reports whether the dialer's last connection is in use.
func (l *Link) isUp() bool {
	last := l.dialer.count.Load()
	return last > 0 && l.up.Load() == last
}

// JetStream returns the streams of the current connection, nil before there is one. It changes only
// when [State.Epoch] does.
func (l *Link) JetStream() jetstream.JetStream {
	if now := l.using.Load(); now != nil {
		return now.js
	}
	return nil
}
