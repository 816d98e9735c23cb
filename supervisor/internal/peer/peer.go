package peer

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/signal"
	"github.com/mcp-metarouter/metarouter/internal/wire"
)

// A Host has the functions and settings of a Peer's user.
type Host struct {
	Server string                       // its name
	Stray  func(line []byte, why error) // called with lines of the server that are no message
	Text   func(first string)           // called with the first line of a server that writes text, and no message yet; may be nil
	Asked  func(method string)          // called when the server sends its client the first request of a method
	Limits *Limits                      // of its questions; nil for the default
	Roots  Roots                        // that it gets
	Owner  func() session.Client        // returns the only client that uses the session, nil if several may

	// Message is called with each notification of the server that belongs to no request, in wire order: when Call
	// returns a result, with every one that came before it. It runs on the reading goroutine and must not block. May be nil.
	Message func(session.Message)
}

// A Peer is a session with a server.
type Peer struct {
	*Conn
	Questions     *Questions
	Subscriptions *Subscriptions
}

// New returns a Peer over the link that open returns. The link may use the Conn once
// New has returned.
func New(h Host, open func(*Conn) Link) *Peer {
	if h.Message == nil {
		h.Message = func(session.Message) {}
	}
	if h.Limits == nil {
		h.Limits = NewLimits(func() int { return 0 })
	}
	c := &Conn{
		Calls:  Calls{pending: make(map[int64]*pendingRequest), since: time.Now()},
		Budget: newBudget(h.Stray),
		host:   h, Life: signal.NewLife(),
	}
	p := &Peer{Conn: c}
	p.Questions = &Questions{
		conn: c, seats: semaphore.NewWeighted(maxAsked), open: make(map[string]*question),
		routine: semaphore.NewWeighted(1), roots: perMinuteLimiter(maxRoots),
	}
	p.Subscriptions = &Subscriptions{
		conn: c, turn: semaphore.NewWeighted(1), edits: make(chan struct{}, 1), count: make(map[string]int),
	}
	c.handle = p.handle
	c.link = open(c)
	return p
}

// maxRounds bounds how often a modern server may ask for more input before it
// answers one request.
const maxRounds = 10

// Call implements [session.Session].
func (p *Peer) Call(ctx context.Context, r session.Request) (json.RawMessage, error) {
	var declined int
	for round := 0; ; round++ {
		one, err := p.begin(ctx, r)
		if err != nil {
			return nil, err
		}
		raw, err := p.await(ctx, one)
		if err != nil || p.agreed.meta == nil || !asksInput(r, raw) {
			return raw, err
		}
		fixed, err := p.Questions.allowRound(ctx, raw)
		if err != nil {
			return nil, err
		}
		if r.From.Modern() && !r.Asks && !fixed { // it answers such a result itself
			return raw, nil
		}
		if round == maxRounds {
			return nil, session.Internal(fmt.Sprintf("server %q asked for input %d times", p.host.Server, maxRounds))
		}
		if r.Params, err = p.Questions.answerRound(ctx, r, raw, &declined); err != nil {
			return nil, err
		}
	}
}

// handle acts on a request or notification of the server.
func (p *Peer) handle(m wire.Message, origin int64) error {
	switch {
	case m.Method == "ping" && m.IsRequest():
		p.respond(m.ID, json.RawMessage("{}"), nil) // always: many servers end the session after an error
		return nil
	case m.IsRequest():
		return p.Questions.answer(m, origin)
	}
	switch m.Method {
	case "notifications/progress":
		return p.progress(m)
	case Cancelled:
		p.Questions.withdraw(wire.Member(m.Params, "requestId"))
		return nil
	case "notifications/subscriptions/acknowledged":
		p.Subscriptions.agree(m.Params)
		return nil
	case "notifications/message":
		meta := wire.Member(m.Params, "_meta")
		if id, err := OurID(wire.Member(meta, session.MetaRequest)); err == nil {
			if one := p.Calls.get(id); one != nil && one.from != nil {
				one.from.Notify(p.host.Server, session.Message{Method: m.Method, Params: wire.SetMember(m.Params, "_meta", wire.DeleteMember(meta, session.MetaRequest))})
			}
			return nil
		}
		if _, from := p.Calls.asker(origin); from != nil {
			from.Notify(p.host.Server, session.Message{Method: m.Method, Params: m.Params})
			return nil
		}
	}
	p.host.Message(session.Message{Method: m.Method, Params: m.Params})
	return nil
}

// progress passes a notification about a call on to its client, under the token that
// the client gave the call.
func (p *Peer) progress(m wire.Message) error {
	id, err := OurID(wire.Member(m.Params, "progressToken"))
	if err != nil {
		return err
	}
	if one := p.Calls.get(id); one != nil && one.token != nil {
		one.from.Notify(p.host.Server, session.Message{Method: m.Method, Params: wire.SetMember(m.Params, "progressToken", one.token)})
	}
	return nil
}

// Subscribe implements [session.Session].
func (p *Peer) Subscribe(ctx context.Context, uri string) (cancel func(), err error) {
	return p.Subscriptions.add(ctx, uri)
}

// Modern reports whether the session is of the modern era.
func (p *Peer) Modern() bool { return p.agreed.meta != nil }

// BothEras reports whether a server with a modern session speaks the legacy era too.
func (p *Peer) BothEras() bool { return p.agreed.bothEras }

// Usable reports whether a call can begin.
func (p *Peer) Usable() bool { return p.Cause() == nil && !p.Calls.Refused() }

// levelTimeout bounds the wait for the answer to logging/setLevel.
const levelTimeout = 2 * time.Second

// SetLevel asks a legacy server that sends log messages for those from the level on.
func (p *Peer) SetLevel(ctx context.Context, level string) {
	if level == "" || p.agreed.meta != nil || !p.agreed.info.Has("logging") {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, levelTimeout)
	defer cancel()
	params := append(wire.AppendString([]byte(`{"level":`), level), '}')
	p.Request(ctx, session.Request{Method: "logging/setLevel", Params: params})
}
