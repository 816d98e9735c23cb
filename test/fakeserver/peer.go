package fakeserver

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"

	"github.com/mcp-metarouter/metarouter/test/internal/protocol"
)

// A peer is one client of the server: the client of a process, one session over HTTP, or
// one modern request over HTTP.
type peer struct {
	*server
	push func(line string) // sends a message that belongs to no request

	lock         sync.Mutex // guards the fields below
	initialized  bool
	discovered   bool
	capabilities json.RawMessage // of the client, as of initialize
	level        string          // of logging/setLevel
	roots        string          // the client's last answer to roots/list
	watched      map[string]bool // resources, by resources/subscribe
	listens      []listen
	inFlight     map[string]context.CancelFunc    // by id
	asked        map[string]chan protocol.Message // by our id
}

func (s *server) newPeer(push func(line string)) *peer {
	p := &peer{
		server: s, push: push,
		watched: map[string]bool{}, inFlight: map[string]context.CancelFunc{}, asked: map[string]chan protocol.Message{},
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.peers[p] = true
	return p
}

// leave forgets the client and cancels what it has in flight.
func (p *peer) leave() {
	p.mu.Lock()
	delete(p.peers, p)
	p.mu.Unlock()
	p.lock.Lock()
	defer p.lock.Unlock()
	for _, cancel := range p.inFlight {
		cancel()
	}
}

// read handles a line of stdin, or an HTTP body with its header. A request that may take long gets its own goroutine.
func (p *peer) read(line []byte, header http.Header) {
	p.traceLine(string(bytes.TrimSpace(line)))
	var m protocol.Message
	switch err := json.Unmarshal(line, &m); {
	case p.mute:
	case err != nil:
		p.push(`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}`)
	case m.Method == "" || m.ID == nil:
		p.receive(m)
	case p.isSlow(m.Method):
		ctx, end := p.begin(context.Background(), m.ID)
		go func() {
			defer end()
			p.serve(&call{peer: p, ctx: ctx, message: m, send: p.push, header: header})
		}()
	default:
		p.serve(&call{peer: p, ctx: context.Background(), message: m, send: p.push, header: header})
	}
}

func (p *peer) isSlow(method string) bool {
	switch method {
	case "tools/call", "prompts/get", "resources/read", "subscriptions/listen":
		return true
	}
	return slices.Contains(p.hang, method)
}

// receive handles a response or a notification.
func (p *peer) receive(m protocol.Message) {
	switch m.Method {
	case "":
		p.lock.Lock()
		defer p.lock.Unlock()
		if answer, ok := p.asked[string(m.ID)]; ok {
			delete(p.asked, string(m.ID))
			answer <- m
		}
	case "notifications/cancelled":
		var n struct{ RequestID json.RawMessage }
		json.Unmarshal(m.Params, &n)
		p.lock.Lock()
		defer p.lock.Unlock()
		if cancel, ok := p.inFlight[string(n.RequestID)]; ok {
			cancel()
		}
	case "notifications/initialized", "notifications/roots/list_changed":
		if p.askRoots {
			go p.askForRoots()
		}
	}
}

// begin records that a request is in flight. The client can cancel it until end is called.
func (p *peer) begin(parent context.Context, id json.RawMessage) (_ context.Context, end func()) {
	ctx, cancel := context.WithCancel(parent)
	p.lock.Lock()
	defer p.lock.Unlock()
	p.inFlight[string(id)] = cancel
	return ctx, func() {
		cancel()
		p.lock.Lock()
		defer p.lock.Unlock()
		delete(p.inFlight, string(id))
	}
}

// A call is one request that is being answered.
type call struct {
	*peer
	ctx     context.Context // done when the client cancels the request
	message protocol.Message
	modern  bool
	meta    map[string]json.RawMessage // of params
	send    func(line string)          // sends a message that belongs to the request
	header  http.Header                // nil over stdio

	arguments json.RawMessage // of tools/call
}

// serve answers a request with a result or an error. It sends nothing if answer returns
// neither.
func (p *peer) serve(c *call) {
	if slices.Contains(p.hang, c.message.Method) {
		<-c.ctx.Done()
		return
	}
	var params struct {
		Meta map[string]json.RawMessage `json:"_meta"`
	}
	json.Unmarshal(c.message.Params, &params)
	c.meta = params.Meta
	var result string
	var e *rpcError
	if c.modern, e = p.eraOf(c.meta); e == nil {
		result, e = c.answer()
	}
	switch {
	case e != nil:
		c.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":%s}`, c.message.ID, e.object))
	case result != "":
		if c.modern {
			result = p.modernize(result)
		}
		c.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, c.message.ID, result))
	}
	if c.message.Method == "tools/call" {
		p.countCall()
	}
}
