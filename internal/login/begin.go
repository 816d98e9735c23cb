package login

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"go.uber.org/zap"
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
	// beginTime bounds what precedes the login of the person: the issuer is found, and the
	// client registered.
	beginTime = time.Minute
	// probeTime bounds a request that the server is expected to refuse.
	probeTime = 15 * time.Second
)

// A request identifies logins of which one is enough.
type request struct {
	server identity
	by     string
}

// who says in a log who has begun a login. The principal itself may be the hash of a token.
func (r request) who() string {
	if r.by == "" {
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

// record records what someone does about a login at a server.
func (l *Logins) record(who audit.Actor, server, outcome, what string) {
	l.options.Audit.Record(audit.Event{Action: audit.Remote, Outcome: outcome, Principal: who.Principal, From: who.From, Target: server, Reason: what})
}

// join returns the pending login of the request, which may be a new one, begun by who.
func (l *Logins) join(r Request, who audit.Actor) (*Pending, error) {
	key := request{server: identify(r.Server), by: r.By}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, errClosed
	}
	first := l.pending[key]
	if first != nil {
		all := oauth.Union(first.asked, r.Scopes)
		if first.way == r.Way && len(all) == len(first.asked) && !(signal.IsClosed(first.ready) && expired(first)) {
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
		logins: l, request: key, who: who, way: r.Way, asked: r.Scopes, replaces: first,
		state: rand.Text(), verifier: oauth2.GenerateVerifier(),
		ready: make(chan struct{}), done: make(chan struct{}), cancel: cancel,
	}
	l.pending[key], l.states[p.state] = p, p
	l.work.Go(func() {
		l.record(who, p.Server, audit.OK, "a login began")
		p.run(ctx, r)
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

// run is the life of a pending login.
func (p *Pending) run(ctx context.Context, r Request) {
	defer p.cancel()
	begin, cancel := context.WithTimeout(ctx, beginTime)
	defer cancel()
	place, err := p.prepare(begin, r)
	if p.replaces != nil {
		p.replaces.supersede(p, err)
		p.replaces = nil
	}
	if err != nil {
		if p.logins.ctx.Err() != nil {
			err = errClosed
		}
		p.end(err)
		close(p.ready)
		return
	}
	p.URL, p.Expires = place, p.expiry()
	p.logins.log.Info("a login began", zap.String("server", p.Server), zap.String("issuer", p.found.Issuer.ID),
		zap.String("by", p.request.who()), zap.String("way", string(p.way)))
	close(p.ready)
	if p.way == Device {
		p.awaitDevice(ctx)
		return
	}
	p.await()
}

// expiry returns when the login expires that begins now.
func (p *Pending) expiry() time.Time {
	expires := time.Now().Add(p.logins.lifetime)
	if d := p.Device; d != nil && !d.Expires.IsZero() && d.Expires.Before(expires) {
		return d.Expires
	}
	return expires
}

// supersede ends the login if the next one, which replaces it, is ready (err is nil); but an answer
// that was accepted is redeemed. If the next one has failed, the login goes on.
func (p *Pending) supersede(next *Pending, err error) {
	<-p.ready
	if err == nil {
		if p.claim(nil) {
			p.end(errReplaced)
		}
		return
	}
	l := p.logins
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pending[p.request] == next && !p.ended {
		l.pending[p.request] = p
	}
}

// prepare gets all that the login needs, and returns where the person logs in.
func (p *Pending) prepare(ctx context.Context, r Request) (string, error) {
	l := p.logins
	p.source = l.Source(r.Server)
	client := l.client(r.Server)
	found, challenge, err := p.discover(ctx, client, r.Server)
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = fmt.Errorf("the server, or an issuer that it names, does not answer; is the network up? (%w)", e.Err)
	}
	if err != nil {
		return "", fmt.Errorf("%s: who issues its tokens can't be found: %w", r.Server.Name, err)
	}
	p.found = *found
	saved, err := p.source.saved(ctx)
	if err != nil {
		return "", fmt.Errorf("%s: %w", r.Server.Name, err)
	}
	if _, err := p.source.permit(ctx, found.Issuer.ID); err != nil {
		return "", fmt.Errorf("%s: %w", r.Server.Name, err)
	}
	if p.scopes, err = scopes(r, *found, challenge, saved); err != nil {
		return "", err
	}
	redirect, kept, err := p.redirectFor(ctx, r)
	if err != nil {
		return "", err
	}
	p.redirect = redirect.URI
	id, err := oauth.Identify(ctx, client, r.Server, found.Issuer, redirect, kept)
	if err != nil {
		return "", fmt.Errorf("%s: %w", r.Server.Name, err)
	}
	p.reused = id.Registered && kept != nil && *kept == id
	if id.Registered && !p.reused {
		if err := p.source.keepClient(ctx, found.Issuer.ID, id); err != nil {
			return "", fmt.Errorf("%s: the registration at %s can't be stored: %w", r.Server.Name, found.Issuer.ID, err)
		}
	}
	p.grantor = grantor(client, r.Server.Settings, p.found, id)
	if p.way == Device {
		return p.prepareDevice(ctx)
	}
	return webURL(p.grantor.AuthorizationURL(p.state, p.verifier, p.redirect, p.scopes))
}

func (p *Pending) prepareDevice(ctx context.Context) (string, error) {
	if p.found.Issuer.DeviceEndpoint == "" {
		return "", fmt.Errorf("%s: its issuer %s has no logins by device code; log in without", p.Server, p.found.Issuer.ID)
	}
	if err := p.source.pin(ctx, p.found.Issuer.ID); err != nil {
		return "", fmt.Errorf("%s: %w", p.Server, err)
	}
	device, err := p.grantor.StartDevice(ctx, p.scopes)
	if err != nil {
		p.discardClient(ctx, err)
		return "", p.explain(err)
	}
	p.Device = device
	if device.CompleteURL != "" {
		return webURL(device.CompleteURL)
	}
	return webURL(device.URL)
}

// grantor returns the one that asks the issuer for tokens for the server.
func grantor(c *http.Client, s oauth.Settings, f oauth.Found, id oauth.Client) *oauth.Grantor {
	g := &oauth.Grantor{HTTP: c, Issuer: f.Issuer, Client: id, Settings: s, Resource: f.Resource}
	switch {
	case s.NoResource:
		g.Resource = ""
	case s.Resource != "":
		g.Resource = s.Resource
	}
	return g
}

// webURL returns the text if a browser may be sent there: no script, no file.
func webURL(text string) (string, error) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.User != nil || u.Scheme != "https" && u.Scheme != "http" {
		return "", errors.New("the issuer names a login page that is no web address")
	}
	return text, nil
}

// discover returns who issues tokens for the server, and what the server says when it refuses a
// request without a token. A server that refuses only some requests has told the source already.
func (p *Pending) discover(ctx context.Context, c *http.Client, s oauth.Server) (*oauth.Found, oauth.Challenge, error) {
	challenge, refused, unasked := probe(ctx, c, s)
	known := p.source.known()
	if known != nil && !refused {
		return known, challenge, nil
	}
	found, err := oauth.Discover(ctx, c, s, challenge)
	switch {
	case err != nil && known != nil:
		return known, challenge, nil
	case unasked != nil && (err != nil || !found.Asserted):
		return nil, challenge, unasked
	case err != nil:
		return nil, challenge, err
	case !found.Asserted && !refused:
		return nil, challenge, errors.New("it answers without a token, and describes no issuer; it needs no login")
	}
	if found.Issuer.TokenEndpoint == "" {
		return nil, challenge, ErrNoOAuth
	}
	p.source.learn(found)
	return found, challenge, nil
}

// probe sends requests without a token and content, and reports whether the server refuses one.
// The error says why none was answered.
func probe(ctx context.Context, c *http.Client, s oauth.Server) (challenge oauth.Challenge, refused bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	answered := false
	for _, method := range []string{http.MethodPost, http.MethodGet} {
		req, failed := http.NewRequestWithContext(ctx, method, s.URL, nil)
		if failed != nil {
			return challenge, false, failed
		}
		req.Header.Set("Accept", "application/json, text/event-stream")
		req.Header.Set("Content-Type", "application/json")
		resp, failed := c.Do(req)
		if failed != nil { // such as a redirect of a POST
			err = failed
			continue
		}
		resp.Body.Close() // it may be a stream without an end
		if resp.StatusCode == http.StatusUnauthorized {
			return oauth.ChallengeOf(resp), true, nil
		}
		answered = true
	}
	if answered {
		err = nil
	}
	return challenge, false, err
}

// scopes returns those to ask for. Scopes of the settings are not widened: they say what the
// router may do at most.
func scopes(r Request, f oauth.Found, challenge oauth.Challenge, saved *record) ([]string, error) {
	fixed := r.Server.Settings.Scopes
	if len(fixed) == 0 {
		granted := r.Scopes
		if saved != nil && saved.Found.Issuer.ID == f.Issuer.ID {
			granted = oauth.Union(saved.Token.Scopes, granted)
		}
		return oauth.ScopesToAsk(r.Server.Settings, &f, challenge, granted), nil
	}
	for _, scope := range r.Scopes {
		if !slices.Contains(fixed, scope) {
			return nil, fmt.Errorf("%s: the login must permit %q, which oauth.scopes of the configuration leaves out; add it there and log in again", r.Server.Name, scope)
		}
	}
	return oauth.ScopesToAsk(r.Server.Settings, &f, challenge, nil), nil
}
