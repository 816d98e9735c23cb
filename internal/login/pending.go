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
	By     string   // the principal that begins it, and must have the session in which it comes back if Way is Public; "" is the local user
	Way    Way      // how it comes back
	Scopes []string // to ask for besides the scopes that were granted before; may be nil
}

// Lifetime is how long a login waits for its person.
const Lifetime = 5 * time.Minute

const (
	// exchangeTime bounds the steps after the answer of the person: the issuer is asked for tokens,
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

	// The fields below are set before ready is closed, and not changed then.
	logins   *Logins
	key      loginKey
	who      audit.Actor // that began it
	flow     flow
	replaces *Pending // that this login ends when it is ready; may be nil

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

// run is the life of a pending login.
func (p *Pending) run(ctx context.Context) {
	defer p.cancel()
	begin, cancel := context.WithTimeout(ctx, beginTime)
	defer cancel()
	page, err := p.flow.prepare(begin)
	if p.replaces != nil {
		p.replaces.supersede(p, err)
		p.replaces = nil
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", p.Server, err)
		if p.logins.ctx.Err() != nil {
			err = errClosed
		}
		p.end(err)
		close(p.ready)
		return
	}
	p.URL, p.Device = page, p.flow.device
	p.Expires = p.expiry()
	p.logins.log.Info("a login began", zap.String("server", p.Server), zap.String("issuer", p.flow.found.Issuer.ID),
		zap.String("by", p.key.who()), zap.String("way", string(p.flow.way)))
	close(p.ready)
	if p.flow.way == Device {
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
	if l.pending[p.key] == next && !p.ended {
		l.pending[p.key] = p
	}
}

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
	if p.flow.way == Device {
		return fmt.Errorf("the login at %s waits for a code that you enter at %s, not for an address", p.Server, p.URL)
	}
	advice := fmt.Sprintf("copy the whole address to which the browser was sent after the login; it begins with %s?", p.flow.redirect)
	query, ok := redirectedQuery(redirected)
	if !ok {
		return fmt.Errorf("this is no such address; %s", advice)
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return fmt.Errorf("the address is damaged; %s", advice)
	}
	switch values.Get("state") {
	case p.flow.state:
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
		p.end(p.flow.redeem(ctx, answer))
	})
	return p.Wait(ctx)
}

// claim reports whether the login still waits, and no answer was accepted before. then uses the
// answer, on a goroutine that Close awaits; it may be nil.
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
	if p.flow.reused {
		ctx, cancel := context.WithTimeout(p.logins.ctx, exchangeTime)
		defer cancel()
		p.flow.source.account.dropClient(ctx, p.flow.found.Issuer.ID)
	}
	p.end(errExpired)
}

// awaitDevice ends the login when the person has entered the code.
func (p *Pending) awaitDevice(ctx context.Context) {
	ctx, cancel := context.WithDeadline(ctx, p.Expires)
	defer cancel()
	token, err := p.flow.grantor.AwaitDevice(ctx, p.Device, p.flow.scopes)
	switch {
	case p.logins.ctx.Err() != nil:
		err = errClosed
	case err != nil && ctx.Err() != nil:
		err = errExpired
	case err != nil:
		err = p.flow.explain(err)
	case !p.claim(nil):
		err = errClosed // or it was replaced, and has ended
	default:
		ctx, cancel := context.WithTimeout(p.logins.ctx, exchangeTime)
		defer cancel()
		err = p.flow.save(ctx, token)
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
	if l.pending[p.key] == p {
		delete(l.pending, p.key)
	}
	l.mu.Unlock()
	l.loopback.release(p.flow.port)
	log := l.log.With(zap.String("server", p.Server), zap.String("issuer", p.flow.found.Issuer.ID), zap.String("by", p.key.who()))
	if err != nil {
		log.Info("a login failed", zap.String("error", plain.Line(err.Error())))
		l.record(p.who, p.Server, audit.Failed, err.Error())
	} else {
		log.Info("a login is done")
		l.record(p.who, p.Server, audit.OK, "logged in")
	}
	close(p.done)
}
