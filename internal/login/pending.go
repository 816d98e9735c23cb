package login

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"
	"unicode"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/internal/audit"
	"github.com/mcp-metarouter/metarouter/internal/oauth"
	"github.com/mcp-metarouter/metarouter/internal/plain"
)

// A Way is how a login comes back.
type Way string

const (
	Loopback Way = "loopback" // to a listener of this process; also ""
	Public   Way = "public"   // to the router's HTTP server, at PublicURL
	Device   Way = "device"   // not at all: the person enters a code (RFC 8628)
)

// A Request begins a login.
type Request struct {
	Server oauth.Server
	By     string   // the principal that begins it, and with whose session it must come back if Way is Public; "" is the local user
	Way    Way      // how it comes back
	Scopes []string // to ask for besides those that were granted before; nil for none
}

// Lifetime is how long a login waits for its person.
const Lifetime = 5 * time.Minute

const (
	// exchangeTime bounds what follows the answer of the person: the issuer is asked for tokens,
	// which are stored.
	exchangeTime = time.Minute
	// maxRedirected is the size of a redirected URL in bytes.
	maxRedirected = 64 << 10
)

// A Pending is a login that waits for its person.
type Pending struct {
	ID      string
	Server  string        // its name
	URL     string        // where the person logs in; it works once
	Device  *oauth.Device // nil unless Way is Device
	Expires time.Time

	// What follows is set before ready is closed, and not changed then.
	logins   *Logins
	request  request
	who      audit.Actor // that began it
	way      Way
	asked    []string // scopes of the requests for it
	source   *Source
	grantor  *oauth.Grantor
	found    oauth.Found
	scopes   []string
	redirect string
	port     int  // of the loopback listener; 0 without
	reused   bool // the client was registered for an earlier login
	state    string
	verifier string
	replaces *Pending // that this one ends when it is ready; nil for none

	cancel context.CancelFunc // of the goroutine that begins and awaits it

	ready chan struct{} // closed when the person can log in, or the login has failed
	done  chan struct{} // closed when the login is done, has failed or has expired

	// The mutex of logins guards the following.
	claimed bool  // an answer was accepted: there is no second one
	ended   bool  // done is closed
	err     error // why the login failed
}

var (
	errExpired  = errors.New("the login has expired; begin it again")
	errReplaced = errors.New("a newer login at the same server has replaced this one")
	errUnknown  = errors.New("this login is not known here: it may have expired, or another program or user has begun it; begin it again")
	errNoCode   = errors.New("the address has no answer of the issuer (code and state)")
)

// Wait waits until the login is done, has failed or has expired, or ctx ends.
func (p *Pending) Wait(ctx context.Context) error {
	select {
	case <-p.done:
		return p.outcome()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Done returns a channel that is closed when the login is done, has failed or has expired.
func (p *Pending) Done() <-chan struct{} { return p.done }

func (p *Pending) outcome() error {
	p.logins.mu.Lock()
	defer p.logins.mu.Unlock()
	return p.err
}

// Finish completes the login with the URL to which the browser was sent, which a person has copied.
// A URL that does not belong to this login is an error, and the login waits on.
func (p *Pending) Finish(ctx context.Context, redirected string) error {
	if p.way == Device {
		return fmt.Errorf("the login at %s waits for a code that you enter at %s, not for an address", p.Server, p.URL)
	}
	advice := fmt.Sprintf("copy the whole address to which the browser was sent after the login; it begins with %s?", p.redirect)
	query, ok := redirectedQuery(redirected)
	if !ok {
		return fmt.Errorf("this is no such address; %s", advice)
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return fmt.Errorf("the address is damaged; %s", advice)
	}
	switch values.Get("state") {
	case p.state:
	case "":
		return fmt.Errorf("%w; %s", errNoCode, advice)
	default:
		return fmt.Errorf("this is the address of another login; %s", advice)
	}
	err = p.complete(ctx, values)
	if errors.Is(err, errNoCode) {
		return fmt.Errorf("%w; %s", err, advice)
	}
	return err
}

// redirectedQuery returns the query of a URL that a person has copied. Terminals and mail break
// long lines, and some people copy quotes with the text.
func redirectedQuery(text string) (query string, ok bool) {
	if len(text) > maxRedirected {
		return "", false
	}
	text = strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) || strings.ContainsRune("\"'`<>“”‘’", r) {
			return -1
		}
		return r
	}, text)
	if _, after, found := strings.Cut(text, "?"); found {
		text = after
	}
	text, _, _ = strings.Cut(text, "#")
	return text, strings.Contains(text, "=")
}

// complete accepts the answer of the issuer, once, and waits until the login is done or ctx
// ends. A second answer waits with the first.
func (p *Pending) complete(ctx context.Context, answer url.Values) error {
	if !answer.Has("code") && !answer.Has("error") {
		return errNoCode
	}
	p.claim(func() {
		if expired(p) { // the machine slept
			p.end(errExpired)
			return
		}
		ctx, cancel := context.WithTimeout(p.logins.ctx, exchangeTime)
		defer cancel()
		p.end(p.redeem(ctx, answer))
	})
	return p.Wait(ctx)
}

// claim reports whether no answer was accepted before, and the login still waits. then is what is
// done with the answer, on a goroutine that Close awaits; nil for nothing.
func (p *Pending) claim(then func()) bool {
	l := p.logins
	l.mu.Lock()
	defer l.mu.Unlock()
	if p.claimed || p.ended || l.closed {
		return false
	}
	p.claimed = true
	if then != nil {
		l.work.Go(then)
	}
	return true
}

func expired(p *Pending) bool { return !p.logins.now().Before(p.Expires.Round(0)) }

// redeem turns the answer of the issuer into tokens in the store.
func (p *Pending) redeem(ctx context.Context, answer url.Values) error {
	code, err := p.grantor.CheckResponse(answer)
	if err != nil {
		return p.explain(err)
	}
	if err := p.source.pin(ctx, p.found.Issuer.ID); err != nil {
		return p.explain(err)
	}
	token, err := p.grantor.Exchange(ctx, code, p.verifier, p.redirect, p.scopes)
	if err != nil {
		p.discardClient(ctx, err)
		return p.explain(err)
	}
	return p.save(ctx, token)
}

// save stores the token.
func (p *Pending) save(ctx context.Context, token oauth.Token) error {
	err := p.source.save(ctx, record{Found: p.found, Client: p.grantor.Client, Token: token})
	if err != nil {
		return fmt.Errorf("the login at %s succeeded, but could not be stored: %w", p.Server, err)
	}
	return nil
}

// discardClient has the next login register again if the issuer knows the client no more.
func (p *Pending) discardClient(ctx context.Context, err error) {
	var refusal *oauth.Refusal
	if !p.grantor.Client.Registered || !errors.As(err, &refusal) {
		return
	}
	if refusal.Code == "invalid_client" || refusal.Code == "unauthorized_client" {
		p.dropClient(ctx)
	}
}

func (p *Pending) dropClient(ctx context.Context) {
	if err := p.source.keepClient(ctx, p.found.Issuer.ID, oauth.Client{}); err != nil {
		p.logins.log.Warn("the registration at an issuer can't be removed", zap.String("server", p.Server), zap.Error(err))
	}
}

// explain says in a person's words why the login failed.
func (p *Pending) explain(err error) error {
	issuer := p.found.Issuer.ID
	var refusal *oauth.Refusal
	if !errors.As(err, &refusal) {
		return fmt.Errorf("the login at %s (%s) failed: %w", p.Server, issuer, err)
	}
	switch refusal.Code {
	case "access_denied":
		return fmt.Errorf("the login at %s was refused at %s, by you or by its rules: %w", p.Server, issuer, err)
	case "expired_token":
		return errExpired
	}
	return fmt.Errorf("the login at %s (%s) failed: %w", p.Server, issuer, err)
}

// await ends the login when it has expired, or when the router ends.
func (p *Pending) await() {
	expiry := time.NewTimer(time.Until(p.Expires))
	defer expiry.Stop()
	select {
	case <-p.done:
		return
	case <-p.logins.ctx.Done():
		p.end(errClosed)
		return
	case <-expiry.C:
	}
	if !p.claim(nil) {
		<-p.done // an answer came just now, and is redeemed within exchangeTime
		return
	}
	// The issuer may have shown an error instead of its login page, since it knows the client no
	// more. It tells only the person. So the next login registers again.
	if p.reused {
		ctx, cancel := context.WithTimeout(p.logins.ctx, exchangeTime)
		defer cancel()
		p.dropClient(ctx)
	}
	p.end(errExpired)
}

// awaitDevice ends the login when the person has entered the code.
func (p *Pending) awaitDevice(ctx context.Context) {
	ctx, cancel := context.WithDeadline(ctx, p.Expires)
	defer cancel()
	token, err := p.grantor.AwaitDevice(ctx, p.Device, p.scopes)
	switch {
	case p.logins.ctx.Err() != nil:
		err = errClosed
	case err != nil && ctx.Err() != nil:
		err = errExpired
	case err != nil:
		err = p.explain(err)
	case !p.claim(nil):
		err = errClosed // or it was replaced, and has ended
	default:
		ctx, cancel := context.WithTimeout(p.logins.ctx, exchangeTime)
		defer cancel()
		err = p.save(ctx, token)
	}
	p.end(err)
}

// end ends the login, once: err says why it failed, nil that it is done.
func (p *Pending) end(err error) {
	l := p.logins
	l.mu.Lock()
	if p.ended {
		l.mu.Unlock()
		return
	}
	p.ended, p.err = true, err
	p.cancel()
	if l.pending[p.request] == p {
		delete(l.pending, p.request)
	}
	l.mu.Unlock()
	l.loopback.release(p.port)
	log := l.log.With(zap.String("server", p.Server), zap.String("issuer", p.found.Issuer.ID), zap.String("by", p.request.who()))
	if err != nil {
		log.Info("a login failed", zap.String("error", plain.Line(err.Error())))
		l.record(p.who, p.Server, audit.Failed, err.Error())
	} else {
		log.Info("a login is done")
		l.record(p.who, p.Server, audit.OK, "logged in")
	}
	close(p.done)
}
