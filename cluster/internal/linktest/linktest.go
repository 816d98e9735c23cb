// Package linktest has a network in memory, for tests of the protocol between nodes.
//
// It encodes, signs and decodes frames as package link does, and may lose, delay and hold them. It
// waits by the clock and channels only, so that it can be used in bubbles of testing/synctest.
package linktest

import (
	"crypto/ed25519"
	"crypto/rand"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nkeys"

	"github.com/mcp-metarouter/metarouter/cluster/internal/frame"
	"github.com/mcp-metarouter/metarouter/cluster/internal/link"
	"github.com/mcp-metarouter/metarouter/internal/signal"
)

// A Key signs for a node.
type Key struct {
	Public  string
	private ed25519.PrivateKey
}

// NewKey returns a random key.
func NewKey() *Key {
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		panic(err)
	}
	text, err := nkeys.Encode(nkeys.PrefixByteUser, public)
	if err != nil {
		panic(err)
	}
	return &Key{string(text), private}
}

// Sign implements [frame.Signer].
func (k *Key) Sign(data []byte) ([]byte, error) { return ed25519.Sign(k.private, data), nil }

// A Network connects nodes.
type Network struct {
	t testing.TB

	mu    sync.Mutex // guards the following, and the nodes
	nodes []*Node
	drop  func(from, to *Node, f *frame.Frame) bool
	delay time.Duration
	limit int
}

// New returns a network. Its goroutines end with the test.
func New(t testing.TB) *Network { return &Network{t: t, limit: frame.MaxFrame / 2} }

// Join adds a node, which has an instance of its own. Several may have the same key.
func (n *Network) Join(key *Key) *Node {
	node := &Node{
		network: n, key: key, self: frame.Address{Key: key.Public, Instance: rand.Text()},
		wake: make(chan struct{}, 1), done: make(chan struct{}), ended: make(chan struct{}),
	}
	n.mu.Lock()
	n.nodes = append(n.nodes, node)
	n.mu.Unlock()
	go node.run()
	n.t.Cleanup(node.Leave)
	return node
}

// Drop has the network lose frames for which drop reports true; nil delivers all. It replaces an
// earlier Drop or Split, and must not call the network.
func (n *Network) Drop(drop func(from, to *Node, f *frame.Frame) bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.drop = drop
}

// Split loses all frames between nodes of the group and others, until Drop(nil).
func (n *Network) Split(group ...*Node) {
	n.Drop(func(from, to *Node, _ *frame.Frame) bool {
		return slices.Contains(group, from) != slices.Contains(group, to)
	})
}

// Delay is how long further frames take.
func (n *Network) Delay(d time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.delay = d
}

// Limit sets the result of MaxPayload.
func (n *Network) Limit(payload int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.limit = payload
}

// carry takes a frame to its receivers. The network must be locked.
func (n *Network) carry(from *Node, to frame.Address, data []byte) {
	f, err := frame.Decode(data)
	if err != nil {
		return // no receiver would read it either
	}
	for _, node := range n.nodes {
		if (to == frame.Address{} || to == node.self) && !node.disconnected && (n.drop == nil || !n.drop(from, node, f)) {
			node.inbox = append(node.inbox, delivery{data, time.Now().Add(n.delay)})
			node.signal()
		}
	}
}

// A Node is a place in the network. It implements [link.Wire].
type Node struct {
	network *Network
	key     *Key
	self    frame.Address
	wake    chan struct{} // there is something new to do
	done    chan struct{} // closed to end the goroutine
	ended   chan struct{}

	// The network's lock guards the following.
	receive      func(*frame.Frame)
	inbox        []delivery
	outbox       []func() // of a frozen node
	frozen       bool
	disconnected bool
	left         bool
}

// A delivery is a frame under way.
type delivery struct {
	data []byte
	due  time.Time
}

var _ link.Wire = (*Node)(nil)

// Receive calls receive with each frame that reaches the node, one after the other. Frames that
// come earlier are lost. The node hears its own frames to all, as with NATS.
func (n *Node) Receive(receive func(*frame.Frame)) {
	defer n.lock()()
	n.receive = receive
}

// Self implements [link.Wire].
func (n *Node) Self() frame.Address { return n.self }

// Key returns the node's key.
func (n *Node) Key() *Key { return n.key }

// MaxPayload implements [link.Wire].
func (n *Node) MaxPayload() int {
	defer n.lock()()
	return n.network.limit
}

// Send implements [link.Wire].
func (n *Node) Send(to frame.Address, h frame.Header, payload []byte) error {
	h.From, h.To, h.Time = n.self, to, time.Now().UnixMilli()
	data, err := frame.Encode(h, payload, n.key)
	if err != nil {
		return err
	}
	return n.SendRaw(to, data)
}

// SendRaw sends a frame that is encoded already, as a rogue node may.
func (n *Node) SendRaw(to frame.Address, data []byte) error {
	defer n.lock()()
	switch {
	case n.disconnected, n.left:
		return fmt.Errorf("send a frame: %w", link.ErrDisconnected)
	case n.frozen:
		n.outbox = append(n.outbox, func() { n.network.carry(n, to, data) })
	default:
		n.network.carry(n, to, data)
	}
	return nil
}

// Freeze holds all frames from and to the node until Thaw, as if its process was stopped.
func (n *Node) Freeze() {
	defer n.lock()()
	n.frozen = true
}

// Thaw ends Freeze.
func (n *Node) Thaw() {
	defer n.lock()()
	n.frozen = false
	for _, send := range n.outbox {
		send()
	}
	n.outbox = nil
	n.signal()
}

// Disconnect loses all frames to the node until Connect. Send returns [link.ErrDisconnected].
func (n *Node) Disconnect() {
	defer n.lock()()
	n.disconnected = true
}

// Connect ends Disconnect.
func (n *Node) Connect() {
	defer n.lock()()
	n.disconnected = false
}

// Leave takes the node out of the network, as if its process was killed. It waits for a call of
// receive under way, and must not be called by it.
func (n *Node) Leave() {
	unlock := n.lock()
	if !n.left {
		n.left = true
		n.network.nodes = slices.DeleteFunc(n.network.nodes, func(other *Node) bool { return other == n })
		close(n.done)
	}
	unlock()
	<-n.ended
}

func (n *Node) lock() (unlock func()) {
	n.network.mu.Lock()
	return n.network.mu.Unlock
}

// signal wakes the goroutine of the node.
func (n *Node) signal() {
	signal.Leave(n.wake)
}

// run delivers the frames to the node.
func (n *Node) run() {
	defer close(n.ended)
	for {
		f, receive, wait := n.next()
		if receive != nil {
			receive(f)
		}
		if wait == 0 {
			select {
			case <-n.done:
				return
			default:
				continue
			}
		}
		timer := time.NewTimer(wait)
		select {
		case <-n.wake:
		case <-timer.C:
		case <-n.done:
			timer.Stop()
			return
		}
		timer.Stop()
	}
}

// next takes the next frame, or returns how long to wait for it.
func (n *Node) next() (f *frame.Frame, receive func(*frame.Frame), wait time.Duration) {
	defer n.lock()()
	if n.frozen || len(n.inbox) == 0 {
		return nil, nil, time.Hour
	}
	first := n.inbox[0]
	if wait := time.Until(first.due); wait > 0 {
		return nil, nil, wait
	}
	n.inbox = n.inbox[1:]
	f, err := frame.Decode(first.data)
	if err != nil || n.receive == nil {
		return nil, nil, 0
	}
	return f, n.receive, 0
}
