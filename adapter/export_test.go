package adapter

import (
	"context"
	"net"
	"testing"

	"github.com/mcp-metarouter/metarouter/config"
)

// A Pair is two routers: Box shares its servers, and Laptop uses them over pipes.
type Pair struct {
	Laptop, Box *Router
	node        *pairNode
}

// NewPair runs two routers.
func NewPair(t *testing.T, box, laptop config.Config) *Pair {
	t.Helper()
	var boxes *Router
	serve := ServeNode(func() *Router { return boxes })
	r, node, b, _ := pairServed(t, func(_ string, o *Options) { o.ServeNode = serve }, inCluster(box, "*"), inCluster(laptop))
	boxes = b
	node.handle = nil
	return &Pair{r, boxes, node}
}

// ServeNode returns a function that serves other nodes of a router by package server.
var ServeNode func(r func() *Router) func(context.Context, *NodeView, net.Conn)

// Learn has the laptop learn what the box offers now.
func (p *Pair) Learn(t *testing.T) { p.node.learn(t) }

// Streams returns how many streams there were.
func (p *Pair) Streams() int { return int(p.node.streams.Load()) }

// Asks reports whether the box says that the server asks its clients questions.
func (p *Pair) Asks(server string) bool {
	terms, _ := p.node.Terms(server)
	return terms.Asks
}
