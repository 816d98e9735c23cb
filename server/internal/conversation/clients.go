package conversation

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/server/internal/budget"
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

// A Router has clients, as [adapter.Router] does.
type Router interface {
	// Release says that a client has left.
	Release(home session.Client)

	// Tell sends a notification to the servers that have a session for the client alone.
	Tell(home session.Client, method string, params json.RawMessage)
}

// Options are common to the conversations of a router.
type Options struct {
	Router  Router
	Methods map[string]Method
	Info    func() json.RawMessage    // returns the router's serverInfo
	Joined  func()                    // called when a client with a session has come, before it is served
	Left    func(*Conversation)       // called when a client with a session has left
	Abandon func(func(Identity) bool) // gives up what else goes on for these clients without a session; may be nil
	Rules   func() any                // returns the rules that limit the clients now: no request goes on that was suspended under other rules
	Log     *zap.Logger
	Budget  *budget.Budget // common to the servers of one router

	// Raw, if it is set, says that the clients are clients of another node, which adapts results and
	// questions to them itself: both stay as the server has written them. Raw returns the result to
	// send. It is called with each.
	Raw func(r *Request, result json.RawMessage) json.RawMessage

	// Address returns the address at which other gateways reach this router, "" if they can't. Pass has the gateway at
	// an address go on with a request that it has suspended, and returns its answer. Both may be nil.
	Address func() string
	Pass    func(ctx context.Context, address string, r *Request) (json.RawMessage, error)
}

// Clients are all clients of a router.
type Clients struct {
	Options
	suspended *suspensions
	visitors  *visitors

	mu   sync.Mutex // guards open
	open map[*Conversation]bool
}

// New returns the clients of a router, which has no clients yet.
func New(o Options) *Clients {
	prefix := statePrefix
	if o.Raw != nil {
		prefix = nodeStatePrefix
	}
	return &Clients{
		Options: o, suspended: &suspensions{prefix: prefix, budget: o.Budget, byState: make(map[string]*suspension)}, open: make(map[*Conversation]bool),
		visitors: &visitors{byID: make(map[visitorID]*ClientInfo)},
	}
}

// Open begins the conversation with a client that has a session. w takes the
// messages that belong to no request; who is the identity that the client has proved. transport is
// Stdio, HTTP or Node; place is the Place of [session.Caller], and may be nil. It must be closed.
func (cs *Clients) Open(place any, w Writer, transport string, who Identity) *Conversation {
	c := &Conversation{clients: cs, place: place, writer: w, transport: transport, since: time.Now(), Identity: who, Requests: new(OpenRequests)}
	cs.mu.Lock()
	cs.open[c] = true
	cs.mu.Unlock()
	cs.Joined()
	return c
}

// Visit begins the conversation of a single request: of the modern era, or plain
// JSON-RPC, which needs no initialize. agent is the User-Agent of the request. It must be
// closed.
func (cs *Clients) Visit(plain bool, who Identity, agent string) *Conversation {
	return &Conversation{clients: cs, Identity: who, Visitor: true, Plain: plain, opened: plain, agent: agent, Requests: new(OpenRequests)}
}

// Guest begins the conversation of a single request of the modern era that came to c from a client of
// another node. The request is one of the open requests of c, which cancels it and awaits its end. A guest
// is not closed.
func (c *Conversation) Guest(who Identity) *Conversation {
	return &Conversation{clients: c.clients, Identity: who, Visitor: true, Requests: c.Requests}
}

// Resume lets in a request that another gateway passes on over c. It must go on with a suspended request of a client
// without a session, as is fits its principal; its Identity is that client's.
func (cs *Clients) Resume(ctx context.Context, c *Conversation, is func(principal string) bool, m Message, w Writer) (*Request, error) {
	s := cs.suspended.find(m)
	if s == nil || !is(s.principal) || !s.latest().Visitor {
		return nil, ErrNotResumed
	}
	guest := &Conversation{clients: cs, Identity: s.latest().Identity, Visitor: true, passed: true, Requests: c.Requests}
	return guest.Begin(ctx, m, w)
}

// All returns the conversations with clients that have a session.
func (cs *Clients) All() []*Conversation {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return slices.Collect(maps.Keys(cs.open))
}

// Any reports whether any client has a session.
func (cs *Clients) Any() bool {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return len(cs.open) > 0
}

// Has reports whether the client with a session is one of these.
func (cs *Clients) Has(home session.Client) bool {
	c, ok := home.(*Conversation)
	return ok && c.clients == cs
}

// Suspended returns how many requests wait for their clients to come back.
func (cs *Clients) Suspended() int {
	cs.suspended.mu.Lock()
	defer cs.suspended.mu.Unlock()
	return len(cs.suspended.byState)
}

// End gives up all suspended requests and lets no more be suspended, and forgets the clients
// without a session. Requests that run go on.
func (cs *Clients) End() {
	cs.suspended.end()
	cs.visitors.clear()
}

// AbandonVisitorsOf gives up the suspended requests of these clients without a session, and what else goes on for them.
func (cs *Clients) AbandonVisitorsOf(those func(Identity) bool) {
	if cs.Abandon != nil {
		cs.Abandon(those)
	}
	cs.suspended.abandon(func(of *Conversation) bool { return of.Visitor && those(of.Identity) })
}
