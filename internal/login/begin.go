package login

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"time"

	"golang.org/x/oauth2"

	"github.com/mcp-metarouter/metarouter/internal/audit"
	"github.com/mcp-metarouter/metarouter/internal/oauth"
	"github.com/mcp-metarouter/metarouter/internal/signal"
)

const (
	// maxPending is how many logins may wait at once, and maxStates how many are known,
	// with those that are done.
	maxPending = 50
	maxStates  = 4 * maxPending
	// perMinute is how many logins at one server may begin in a minute.
	perMinute = 5
	// beginTime bounds the steps before the person logs in: the issuer is found, and the
	// client registered.
	beginTime = time.Minute
)

// A loginKey identifies logins that would have the same result: one of them is enough.
type loginKey struct {
	server settingsKey
	by     string
}

// who names the beginner of a login in a log. The principal itself may be the hash of a token.
func (k loginKey) who() string {
	if k.by == "" {
		return "this user"
	}
	return "a client over HTTP"
}

// A beginning counts a login.
type beginning struct {
	server string
	at     time.Time
}

// Begin begins a login: it finds the issuer, and registers the client if that is needed. A second
// login for the same server by the same principal is the first one, while that is pending. One
// that asks for more scopes, or comes back another way, replaces the first.
func (l *Logins) Begin(ctx context.Context, r Request) (*Pending, error) {
	switch {
	case r.Server.Settings.Grant == oauth.ClientCredentials:
		return nil, fmt.Errorf("%s needs no login of a person: the router itself gets its tokens (grant client_credentials)", r.Server.Name)
	case r.Server.Settings.Grant == oauth.DeviceCode:
		r.Way = Device
	case r.Way == "":
		r.Way = Loopback
	}
	who := audit.ActorOf(ctx)
	p, err := l.join(r, who)
	if err != nil {
		l.record(who, r.Server.Name, audit.Refused, "a login did not begin: "+err.Error())
		return nil, err
	}
	select {
	case <-p.ready:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if p.URL == "" {
		return nil, p.outcome()
	}
	return p, nil
}

// record records in the audit log how a login at a server begins or ends.
func (l *Logins) record(who audit.Actor, server, outcome, what string) {
	l.options.Audit.Record(audit.Event{Action: audit.Remote, Outcome: outcome, Principal: who.Principal, From: who.From, Target: server, Reason: what})
}

// join returns the pending login of the request, which may be a new one, begun by who.
func (l *Logins) join(r Request, who audit.Actor) (*Pending, error) {
	key := loginKey{server: settingsKeyOf(r.Server), by: r.By}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, errClosed
	}
	first := l.pending[key]
	if first != nil {
		all := oauth.Union(first.flow.asked, r.Scopes)
		if first.flow.way == r.Way && len(all) == len(first.flow.asked) && !(signal.IsClosed(first.ready) && expired(first)) {
			return first, nil
		}
		r.Scopes = all
	}
	if err := l.admit(r.Server.Name); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(l.ctx)
	p := &Pending{
		ID: rand.Text(), Server: r.Server.Name,
		logins: l, key: key, who: who, replaces: first,
		flow:  flow{logins: l, server: r.Server, way: r.Way, asked: r.Scopes, state: rand.Text(), verifier: oauth2.GenerateVerifier()},
		ready: make(chan struct{}), done: make(chan struct{}), cancel: cancel,
	}
	l.pending[key], l.states[p.flow.state] = p, p
	l.work.Go(func() {
		l.record(who, p.Server, audit.OK, "a login began")
		p.run(ctx)
	})
	return p, nil
}

// admit counts a login at the server, unless there are too many. The caller holds the mutex.
func (l *Logins) admit(server string) error {
	now := time.Now()
	l.begun = slices.DeleteFunc(l.begun, func(b beginning) bool { return now.Sub(b.at) >= time.Minute })
	same, pending := 0, 0
	for _, b := range l.begun {
		if b.server == server {
			same++
		}
	}
	for state, p := range l.states {
		if !p.ended {
			pending++
		} else if len(l.states) >= maxStates || expired(p) {
			delete(l.states, state)
		}
	}
	if same >= perMinute {
		return fmt.Errorf("%s: %d logins began in the last minute; finish the last one, or wait a minute", server, same)
	}
	if pending >= maxPending {
		return fmt.Errorf("%s: %d logins wait already; finish them, or wait %d minutes until they expire", server, pending, int(Lifetime.Minutes()))
	}
	l.begun = append(l.begun, beginning{server, now})
	return nil
}
