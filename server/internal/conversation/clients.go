package conversation

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"sync"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/internal/session"
)

// A Writer takes messages to a client: the stdout of a pipe, or the stream of one
// HTTP request. Each message ends in a line end. Send may be called by many
// goroutines at once.
type Writer interface {
	Send(message []byte) error
}

// A Handler answers a request. An error is a [*session.Error], or the request was
// cancelled.
type Handler func(ctx context.Context, c Call) (json.RawMessage, error)

// A Method is a request that clients may send.
type Method struct {
	Handle    Handler
	Legacy    bool // only the legacy era has it
	Modern    bool // only the modern era has it
	Asks      bool // a server may ask the client something before it answers
	Cacheable bool // results say how long they may be kept
	Quick     bool // answered before the next message is looked at
}

// A Router has clients, as [adapter.Parts] does.
type Router interface {
	// Release says that a client has left.
	Release(home session.Client)

	// Tell sends a notification to the servers whose session is the client's alone.
	Tell(home session.Client, method string, params json.RawMessage)
}

// Options say what the conversations of a router have in common.
type Options struct {
	Router  Router
	Methods map[string]Method
	Info    json.RawMessage     // the router's serverInfo
	Left    func(*Conversation) // called when a client with a session has left
	Secret  []byte              // 32 bytes, which seal what clients keep for the router
	Log     *zap.Logger
}

// Clients are all clients of a router.
type Clients struct {
	router    Router
	methods   map[string]Method
	info      json.RawMessage
	left      func(*Conversation)
	log       *zap.Logger
	suspended *suspensions

	mu   sync.Mutex // guards what follows
	open map[*Conversation]bool
}

// New returns the clients of a router, at first none.
func New(o Options) *Clients {
	return &Clients{
		router: o.Router, methods: o.Methods, info: o.Info, left: o.Left, log: o.Log,
		suspended: newSuspensions(o.Secret), open: make(map[*Conversation]bool),
	}
}

// Open begins the conversation with a client that has a session. w takes the
// messages that belong to no request; principal is the identity that the client
// has proved, "" if it proved none. The conversation goes on where so many routers
// that served the client before were killed: questions get ids that none of them
// has used. It must be closed.
func (cs *Clients) Open(w Writer, principal string, routers uint32) *Conversation {
	c := &Conversation{clients: cs, writer: w, Principal: principal, questions: questions{last: int64(routers&0xffff) << 32}}
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.open[c] = true
	return c
}

// Visit begins the conversation of a single request: of the modern era, or plain
// JSON-RPC, which needs no initialize. It must be closed.
func (cs *Clients) Visit(plain bool, principal string) *Conversation {
	return &Conversation{clients: cs, Principal: principal, Visitor: true, Plain: plain, opened: plain}
}

// All returns the conversations with clients that have a session.
func (cs *Clients) All() []*Conversation {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return slices.Collect(maps.Keys(cs.open))
}

// Method returns a method by its name.
func (cs *Clients) Method(name string) (m Method, known bool) {
	m, known = cs.methods[name]
	return m, known
}

// Suspended returns how many requests wait for their clients to come back.
func (cs *Clients) Suspended() int {
	cs.suspended.mu.Lock()
	defer cs.suspended.mu.Unlock()
	return len(cs.suspended.byID)
}

// AbandonVisitors gives up the suspended requests of clients without a session.
func (cs *Clients) AbandonVisitors() {
	cs.suspended.abandon(func(of *Conversation) bool { return of.Visitor })
}

// remove takes out a conversation that has ended, and gives up what belongs to it.
func (cs *Clients) remove(c *Conversation) {
	cs.suspended.abandon(func(of *Conversation) bool { return of == c })
	cs.mu.Lock()
	delete(cs.open, c)
	cs.mu.Unlock()
	cs.left(c)
	cs.router.Release(c)
}
