package login

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/url"
	"time"

	"golang.org/x/oauth2"

	"github.com/mcp-metarouter/metarouter/internal/audit"
	"github.com/mcp-metarouter/metarouter/internal/oauth"
	"github.com/mcp-metarouter/metarouter/internal/signal"
)

const (
	// maxPending is how many logins may wait at once.
	maxPending = 200
	// perMinute is how many logins at one server may begin in a minute: of each user if each has one.
	perMinute = 5
	// beginTime bounds the steps before the person logs in: the issuer is found, and the
	// client registered.
	beginTime = time.Minute
)

// Begin begins a login: it finds the issuer, and registers the client if that is needed. A second
// login for the same server by the same principal is the first one, while that is pending. One
// that asks for more scopes, or comes back another way, replaces the first.
func (l *Logins) Begin(ctx context.Context, r Request) (*Pending, error) {
	switch {
	case r.Own && (r.Server.Principal == "" || r.Server.Principal != r.By):
		return nil, fmt.Errorf("the login at %s is not for its user alone, and only an administrator may log in for all", r.Server.Name)
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
	case <-p.Over.Done():
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if !signal.IsClosed(p.ready) { // it could not begin
		return nil, p.err
	}
	return p, nil
}

// record records in the audit log how a login at a server begins or ends.
func (l *Logins) record(who audit.Actor, server, outcome, what string) {
	l.options.Audit.Record(audit.Event{Action: audit.Remote, Outcome: outcome, Principal: who.Principal, From: who.From, Target: server, Reason: what})
}

// join returns the pending login of the request, which may be a new one, begun by who.
func (l *Logins) join(r Request, who audit.Actor) (*Pending, error) {
	key := settingsKey(r.Server) + " " + r.By // of logins that would have the same result: one of them is enough
	l.mu.Lock()
	defer l.mu.Unlock()
	first := l.pending[key]
	if first != nil {
		all := oauth.Union(first.request.Scopes, r.Scopes)
		if first.request.Way == r.Way && len(all) == len(first.request.Scopes) && !(signal.IsClosed(first.ready) && expired(first)) {
			return first, nil
		}
		r.Scopes = all
	}
	if err := l.admit(r.Server); err != nil {
		return nil, err
	}
	p := &Pending{
		ID: rand.Text(), Server: r.Server.Name, logins: l, key: key, who: who, request: r, state: rand.Text(), verifier: oauth2.GenerateVerifier(),
		answers: make(chan url.Values), ready: make(chan struct{}),
	}
	p.Over, p.end = context.WithCancel(context.Background())
	var ctx context.Context
	ctx, p.giveUp = context.WithCancelCause(l.life.Context())
	if !l.life.Go(func() { p.run(ctx, first) }) {
		p.giveUp(nil)
		return nil, errClosed
	}
	l.pending[key] = p
	return p, nil
}

// admit counts a login at the server, unless there are too many. The caller holds the mutex.
func (l *Logins) admit(at oauth.Server) error {
	switch {
	case len(l.pending) >= maxPending:
		return fmt.Errorf("%s: %d logins wait already; finish them, or wait %d minutes until they expire", at.Name, len(l.pending), int(Lifetime.Minutes()))
	case l.begun.Take(at.Name+"\x00"+at.Principal, 1, 1) > 0:
		return fmt.Errorf("%s: %d logins began in the last minute; finish the last one, or wait a minute", at.Name, perMinute)
	}
	return nil
}
