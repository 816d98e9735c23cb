package caller

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/mcp-metarouter/metarouter/cluster/internal/frame"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/signal"
)

// Homes are the clients' sessions that other nodes know.
type homes struct {
	mu       sync.Mutex // guards the fields below, and the fields of each home
	byClient map[session.Client]*home
	byID     map[string]*home
	level    *frame.Header                   // that sets the level of log messages; nil before
	levelled map[frame.Address]*frame.Header // the last frame that routers were sent
}

// A home is a client's session.
type home struct {
	id     string
	client session.Client
	life   context.Context // ends when the client has left
	end    context.CancelFunc
	nodes  map[frame.Address]bool // the routers that know it
}

func (h *homes) init() {
	h.byClient, h.byID = make(map[session.Client]*home), make(map[string]*home)
	h.levelled = make(map[frame.Address]*frame.Header)
}

// at returns the ID of a client's session for a router that is about to know it, "" for a client
// without a session.
func (h *homes) at(from session.Client, to frame.Address) string {
	if from == nil {
		return ""
	}
	client := from.Home()
	if client == nil {
		return ""
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	one := h.byClient[client]
	if one == nil {
		one = &home{id: newID(), client: client, nodes: make(map[frame.Address]bool)}
		one.life, one.end = context.WithCancel(context.Background())
		h.byClient[client], h.byID[one.id] = one, one
	}
	one.nodes[to] = true
	return one.id
}

// find returns a client's session that the router knows; nil for an unknown one.
func (h *homes) find(id string, router frame.Address) *home {
	h.mu.Lock()
	defer h.mu.Unlock()
	if one := h.byID[id]; one != nil && one.nodes[router] {
		return one
	}
	return nil
}

// remove forgets a client's session, and returns it; nil if no node knows it.
func (h *homes) remove(client session.Client) *home {
	h.mu.Lock()
	defer h.mu.Unlock()
	one := h.byClient[client]
	if one != nil {
		delete(h.byClient, client)
		delete(h.byID, one.id)
	}
	return one
}

// routers returns the routers that know a client's session, and its ID.
func (h *homes) routers(client session.Client) (id string, all []frame.Address) {
	h.mu.Lock()
	defer h.mu.Unlock()
	one := h.byClient[client]
	if one == nil {
		return "", nil
	}
	for a := range one.nodes {
		all = append(all, a)
	}
	return one.id, all
}

// sweep forgets the routers that are lost.
func (h *homes) sweep(lost func(frame.Address) <-chan struct{}) {
	h.mu.Lock()
	routers := make(map[frame.Address]bool)
	for _, one := range h.byClient {
		for a := range one.nodes {
			routers[a] = true
		}
	}
	for a := range h.levelled {
		routers[a] = true
	}
	h.mu.Unlock()
	for a := range routers {
		if !signal.IsClosed(lost(a)) {
			delete(routers, a)
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for a := range routers {
		delete(h.levelled, a)
		for _, one := range h.byClient {
			delete(one.nodes, a)
		}
	}
}

// levelFor returns the frame that says to a router which log messages are wanted, nil if it knows.
func (h *homes) levelFor(to frame.Address) *frame.Header {
	h.mu.Lock()
	defer h.mu.Unlock()
	if last, ok := h.levelled[to]; ok && last == h.level {
		return nil
	}
	h.levelled[to] = h.level
	return h.level
}

// Release ends the sessions and subscriptions on other nodes that only a client uses. home is the
// client's session.
func (c *Caller) Release(client session.Client) {
	one := c.homes.remove(client)
	if one == nil {
		return
	}
	one.end()
	for to := range one.nodes {
		// A node that can't be reached releases all clients of this router soon.
		_ = c.Wire.Send(to, frame.Header{Kind: frame.Release, Home: one.id}, nil)
	}
}

// Notify sends a client's notification to its servers on other nodes. home is the client's session.
func (c *Caller) Notify(client session.Client, method string, params json.RawMessage) {
	id, routers := c.homes.routers(client)
	for _, to := range routers {
		_ = c.Wire.Send(to, c.tell(id, method, params), nil)
	}
}

func (c *Caller) tell(home, method string, params json.RawMessage) frame.Header {
	return frame.Header{Kind: frame.Tell, Call: newID(), Home: home, Message: &frame.Notification{Method: method, Params: params}}
}

// SetLevel asks the servers of other nodes for log messages from the level on: servers of nodes
// that were called, at once; others, before their first call.
func (c *Caller) SetLevel(_ context.Context, level string) {
	h := &frame.Header{Kind: frame.Level, Message: &frame.Notification{Method: level}}
	c.homes.mu.Lock()
	if c.homes.level != nil && c.homes.level.Message.Method == level {
		c.homes.mu.Unlock()
		return
	}
	c.homes.level = h
	routers := make([]frame.Address, 0, len(c.homes.levelled))
	for a := range c.homes.levelled {
		routers = append(routers, a)
	}
	c.homes.mu.Unlock()
	for _, to := range routers {
		c.level(to)
	}
}

// level says to a router which log messages are wanted, unless it knows.
func (c *Caller) level(to frame.Address) {
	if h := c.homes.levelFor(to); h != nil {
		_ = c.Wire.Send(to, *h, nil)
	}
}
