package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/session"
)

const (
	// askTimeout is how long a client may take to answer a server. Behind it is
	// often a person.
	askTimeout = 10 * time.Minute

	// maxAsks bounds the requests of one server that are not answered yet.
	maxAsks = 64
)

// answer has the server's request answered by the client that it is meant for.
func (p *peer) answer(m wire.Message, origin int64) error {
	if !session.IsAsk(m.Method) {
		return p.respond(m, nil, &session.Error{Code: session.CodeMethodNotFound, Message: "this client does not offer " + m.Method})
	}
	p.host.asked(m.Method)
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.cause != nil || p.asked[string(m.ID)] != nil:
		cancel()
		return errors.New("the session has ended, or the request's id is in use")
	case len(p.asked) == maxAsks:
		cancel()
		return p.respond(m, nil, &session.Error{Code: session.CodeInternal, Message: fmt.Sprintf("%d requests of this server are not answered yet", maxAsks)})
	}
	q := &question{cancel}
	p.asked[string(m.ID)] = q
	p.answering++
	p.owned.Go(func() {
		defer p.answered()
		defer cancel()
		result, err := p.ask(ctx, m, origin)
		p.mu.Lock()
		open := p.asked[string(m.ID)] == q // else it was withdrawn, and its id may be another's
		if open {
			delete(p.asked, string(m.ID))
		}
		p.told = p.told || err == nil && m.Method == "roots/list"
		p.mu.Unlock()
		if open {
			p.respond(m, result, err)
		}
	})
	return nil
}

// A question is a request of the server that is being answered.
type question struct{ cancel context.CancelFunc }

func (p *peer) answered() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.answering--; p.answering == 0 {
		close(p.calm)
		p.calm = make(chan struct{})
	}
}

// rooted waits until the server was told its client's roots, or ctx ends, and
// reports whether it was.
func (p *peer) rooted(ctx context.Context) bool {
	for {
		p.mu.Lock()
		told, calm := p.told, p.calm
		p.mu.Unlock()
		if told {
			return true
		}
		select {
		case <-calm: // something that it had asked is answered
		case <-p.closed:
			return false
		case <-ctx.Done():
			return false
		}
	}
}

// settled waits until nothing is done any more for what the server has asked, and
// reports whether that was before ctx and the session ended.
func (p *peer) settled(ctx context.Context) bool {
	p.mu.Lock()
	answering, calm := p.answering, p.calm
	p.mu.Unlock()
	if answering > 0 {
		select {
		case <-calm:
		case <-p.closed:
		case <-ctx.Done():
		}
	}
	return ctx.Err() == nil && !isClosed(p.closed)
}

// withdraw ends a request that the server has cancelled.
func (p *peer) withdraw(id json.RawMessage) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if q := p.asked[string(id)]; q != nil {
		delete(p.asked, string(id))
		q.cancel()
	}
}

func (p *peer) ask(ctx context.Context, m wire.Message, origin int64) (json.RawMessage, error) {
	from := p.client(origin)
	owner := p.host.owner(ctx)
	switch {
	case owner == nil && m.Method == "roots/list":
		return nil, p.refusal("it serves several clients, and the roots of one are not shown to the others")
	case from == nil && owner == nil:
		return nil, p.refusal("no request, or requests of several clients are under way, so nobody knows which of them is meant")
	case from == nil:
		from = owner
	}
	return from.Ask(ctx, p.host.server, session.Message{ID: m.ID, Method: m.Method, Params: m.Params})
}

func (p *peer) refusal(why string) error {
	return &session.Error{Code: session.CodeInternal, Message: fmt.Sprintf(
		"the router can't pass this request of server %q on: %s; from its next session on, each client gets a process of its own", p.host.server, why)}
}

// client returns on whose behalf the server says or asks something: the request
// that the message came with, else the latest one if all that are under way are
// one client's. It is nil if that can't be known.
func (p *peer) client(origin int64) session.Client {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r := p.pending[origin]; r != nil && r.from != nil {
		return r.from
	}
	var latest *request
	for _, r := range p.pending {
		switch {
		case r.from == nil:
		case latest == nil:
			latest = r
		case r.from.Home() == nil || r.from.Home() != latest.from.Home():
			return nil
		case r.id > latest.id:
			latest = r
		}
	}
	if latest == nil {
		return nil
	}
	return latest.from
}

// respond answers a request of the server.
func (p *peer) respond(m wire.Message, result json.RawMessage, err error) error {
	line := wire.AppendResult(nil, m.ID, result)
	if err != nil {
		var e *session.Error
		if !errors.As(err, &e) {
			e = &session.Error{Code: session.CodeInternal, Message: err.Error()}
		}
		line = wire.AppendError(nil, m.ID, wire.Marshal(e))
	}
	return p.link.aside(&outgoing{line: line})
}
