package conversation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/signal"
	"github.com/mcp-metarouter/metarouter/internal/wire"
)

// An Identity is who a client has proved to be. The zero value has proved nothing.
type Identity struct {
	Principal     string // tells principals apart: the SHA-256 of the token
	PrincipalName string // in logs
	Claims        string // as Claims of [session.Caller]
	Admin         bool   // it may act on servers
	Issuer        string // URL of the issuer of the access token that has proved it; may be ""
}

// A Conversation is the state between a client and the router: a session
// of the legacy era, a pipe on which both eras may be spoken, or a single request
// of a client that has no session.
//
// It is the [session.Client] for messages that belong to no request.
type Conversation struct {
	// These never change.
	Identity
	Visitor bool // the client has no session: the conversation ends with its one request
	Plain   bool // the request is plain JSON-RPC, without sessions and streams

	place     any       // of its process, for session.Caller
	passed    bool      // another gateway passes the request on, which must go on with a suspended one
	transport string    // Stdio, HTTP or Node; "" for a visitor
	agent     string    // the User-Agent of a visitor
	since     time.Time // when it began; zero for a visitor

	calls     atomic.Int64 // of tools; not of a visitor
	clients   *Clients
	writer    Writer // takes the messages that belong to no request
	questions questions
	askable   signal.Change // when the client, or one of its requests, can take a question

	Requests *OpenRequests // that have no answer yet; a guest has those of its stream

	mu                        sync.Mutex // guards the fields below
	opened                    bool       // initialize was seen
	ready                     bool       // the legacy client has its answer, and may be sent messages
	begun                     bool       // any request was seen
	revision                  string     // the legacy revision that was agreed on
	capabilities              json.RawMessage
	clientName, clientVersion string // as the client says in initialize, or else in its first modern request
	spokeModern               bool   // a modern request was seen
	level                     string // the least severe log messages that the client wants; "" if it did not say
}

// Begin lets a request in. Its messages go to w. Unless Begin fails, Run or Handle
// of the request must be called.
func (c *Conversation) Begin(ctx context.Context, m Message, w Writer) (*Request, error) {
	how := c.clients.Methods[m.Method]
	r := &Request{Conversation: c, Message: m, writer: w, how: how, Quick: how.Quick}
	if err := admit(r); err != nil {
		return nil, err
	}
	r.ctx, r.end = context.WithCancelCause(ctx)
	if err := c.Requests.add(r); err != nil {
		r.end(err)
		return nil, err
	}
	switch calls := r.Method == "tools/call"; { // for [Clients.Infos]
	case c.Plain:
		c.clients.visitors.note(true, c.PrincipalName, []byte(c.agent), calls)
	case c.Visitor:
		c.clients.visitors.note(false, c.PrincipalName, r.clientInfo, calls)
	case calls:
		c.calls.Add(1)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.begun = true
	if r.modern && !c.spokeModern {
		c.spokeModern = true
		if !c.opened && !c.Visitor { // a request of a visitor knows it
			c.clientName, c.clientVersion = described(r.clientInfo)
		}
	}
	c.ready = c.ready || !r.modern && r.Method != "initialize" && r.Method != "ping"
	c.askable.Notify()
	return r, nil
}

// maxCapabilities bounds the capabilities of a client, in bytes.
const maxCapabilities = 64 << 10

// introduce notes how a legacy client describes itself in initialize.
func (c *Conversation) introduce(params json.RawMessage) error {
	revision := wire.Text(params, "protocolVersion")
	switch {
	case revision == "":
		revision = unnamedRevision
	case !IsLegacy(revision):
		revision = session.LatestLegacy
	}
	capabilities := wire.Member(params, "capabilities")
	switch {
	case !wire.IsObject(capabilities):
		capabilities = json.RawMessage("{}")
	case len(capabilities) > maxCapabilities: // they are kept as long as the session
		return session.InvalidParams(fmt.Sprintf("the capabilities have %d bytes, at most %d are allowed", len(capabilities), maxCapabilities))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.opened && !c.Visitor {
		return InvalidRequest("the session is initialized already")
	}
	c.revision, c.capabilities, c.opened = revision, slices.Clone(capabilities), true
	c.clientName, c.clientVersion = described(wire.Member(params, "clientInfo"))
	c.askable.Notify()
	return nil
}

// Receive acts on a notification of the client, or its answer to a question.
func (c *Conversation) Receive(m Message) {
	switch m.Method {
	case "":
		c.questions.answered(m.Message)
	case "notifications/initialized":
		c.mu.Lock()
		defer c.mu.Unlock()
		c.ready = c.opened
		c.askable.Notify()
	case "notifications/cancelled":
		c.Requests.cancel(wire.Member(m.Params, "requestId"))
	case "notifications/roots/list_changed":
		c.clients.Router.Tell(c, m.Method, m.Params)
	}
}

// Close cancels the open requests, waits until nothing of them runs, and gives up
// the sessions that servers hold for the client.
func (c *Conversation) Close() {
	c.Requests.close()
	c.questions.close()
	c.Requests.running.Wait()
	if c.Visitor {
		return
	}
	cs := c.clients
	cs.suspended.abandon(func(of *Conversation) bool { return of == c })
	cs.mu.Lock()
	delete(cs.open, c)
	cs.mu.Unlock()
	cs.Left(c)
	cs.Router.Release(c)
}

// Revision returns the legacy revision that was agreed on, "" before initialize.
func (c *Conversation) Revision() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.revision
}

// SetLevel sets the least severe log messages that a legacy client wants.
func (c *Conversation) SetLevel(level string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.level = level
}

// Level returns the least severe log messages that a legacy client wants, "" if it
// did not say.
func (c *Conversation) Level() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.level
}

// Home implements [session.Client].
func (c *Conversation) Home() session.Client {
	if c.Visitor {
		return nil
	}
	return c
}

// Caller returns who is behind the client, for [session.CallerOf]. Clients over stdio are
// programs of the router's own user.
func (c *Conversation) Caller() session.Caller {
	return session.Caller{Principal: c.Principal, Name: c.PrincipalName, Claims: c.Claims, MayLogIn: c.Admin || c.transport == Stdio, OverHTTP: c.transport != Stdio, Place: c.place}
}

// ClientName implements [session.Client].
func (c *Conversation) ClientName() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.clientName
}

// Modern implements [session.Client].
func (c *Conversation) Modern() bool { return false }

// Capabilities implements [session.Client].
func (c *Conversation) Capabilities() json.RawMessage {
	c.mu.Lock()
	defer c.mu.Unlock()
	return wire.OrEmpty(c.capabilities)
}

// Notify implements [session.Client].
func (c *Conversation) Notify(_ string, m session.Message) {
	c.mu.Lock()
	wanted := c.ready && (m.Method != "notifications/message" || severe(m, c.level))
	c.mu.Unlock()
	if wanted {
		Notify(c.writer, m)
	}
}

// askWait is how long a question waits for a request with an answer that can hold it, once the
// client has begun to send requests.
const askWait = 5 * time.Second

// Ask implements [session.Client]. It waits until the client can be asked: until it
// has initialized, or a request of the modern era is open with an answer that can hold the question.
func (c *Conversation) Ask(ctx context.Context, server string, m session.Message) (json.RawMessage, error) {
	var patience <-chan time.Time
	for {
		c.mu.Lock()
		ready, begun, changed := c.ready, c.begun, c.askable.Next()
		c.mu.Unlock()
		if ready {
			return c.questions.ask(ctx, c, c.writer, server, m)
		}
		for _, s := range c.Requests.askers() {
			if answer, err := s.Ask(ctx, server, m); !errors.Is(err, errEnded) {
				return answer, err
			}
		}
		if begun && patience == nil {
			patience = time.After(askWait)
		}
		select {
		case <-changed:
		case <-patience:
			return nil, session.Internal("no request of the client is under way that could carry the question")
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// severe reports whether a log message is at least of the level.
func severe(m session.Message, level string) bool {
	return slices.Index(session.Levels, wire.Text(m.Params, "level")) >= slices.Index(session.Levels, level)
}
