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
	Who    string   // the name of By, for persons; may be ""
	Way    Way      // how it comes back
	Own    bool     // By may not log in for others: the login must be for its principal alone
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
	logins *Logins
	key    loginKey
	who    audit.Actor // that began it
	flow   flow

	giveUp context.CancelCauseFunc // ends it, unless an answer was accepted
	ready  chan struct{}           // closed when the person can log in, or the login has failed
	done   chan struct{}           // closed when the login is done, has failed or has expired

	// The mutex of logins guards the following.
	claimed bool // an answer was accepted: there is no second one
	ended   bool // done is closed soon

	err error // why the login failed; set before done is closed
}

var (
	errExpired  = errors.New("the login has expired; begin it again")
	errReplaced = errors.New("a newer login at the same server has replaced this one")
	errUnknown  = errors.New("this login is not known here: it may have expired, or another program or user has begun it; begin it again")
	errNoCode   = errors.New("the address has no answer of the issuer (code and state)")
)

// run is the life of a pending login, which ends replaced first; may be nil.
func (p *Pending) run(ctx context.Context, replaced *Pending) {
	defer p.giveUp(nil)
	l := p.logins
	l.record(p.who, p.Server, audit.OK, "a login began")
	if replaced != nil {
		replaced.giveUp(errReplaced)
		<-replaced.done
	}
	begin, cancel := context.WithTimeout(ctx, beginTime)
	defer cancel()
	page, err := p.flow.prepare(begin)
	if err != nil {
		err = fmt.Errorf("%s: %w", p.Server, err)
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		p.end(err)
		close(p.ready)
		return
	}
	p.URL, p.Device = page, p.flow.device
	p.Expires = time.Now().Add(l.lifetime)
	if d := p.Device; d != nil && d.Expires.Before(p.Expires) {
		p.Expires = d.Expires
	}
	l.log.Info("a login began", zap.String("server", p.Server), zap.String("issuer", p.flow.found.Issuer.ID),
		zap.String("from", p.who.From), zap.String("way", string(p.flow.way)))
	if p.flow.listener != nil {
		p.flow.listener.serve(l.life, p.answer)
	}
	close(p.ready)
	if p.flow.way == Device {
		p.awaitDevice(ctx)
		return
	}
	p.await(ctx)
}

// Wait waits until the login is done, has failed or has expired, or ctx ends.
func (p *Pending) Wait(ctx context.Context) error {
	select {
	case <-p.done:
		return p.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Done returns a channel that is closed when the login is done, has failed or has expired.
func (p *Pending) Done() <-chan struct{} { return p.done }

// Finish completes the login with the URL to which the browser was sent, which a person has copied.
// A URL that does not belong to this login is an error, and the login waits on.
func (p *Pending) Finish(ctx context.Context, redirected string) error {
	if p.flow.way == Device {
		return fmt.Errorf("the login at %s waits for a code that you enter at %s, not for an address", p.Server, p.URL)
	}
	advice := fmt.Sprintf("copy the whole address to which the browser was sent after the login; it begins with %s?", p.flow.redirect)
	values, err := redirectedQuery(redirected)
	switch {
	case err != nil:
	case values.Get("state") == p.flow.state:
		if err = p.complete(ctx, values); !errors.Is(err, errNoCode) {
			return err
		}
	case values.Get("state") == "":
		err = errNoCode
	default:
		err = errors.New("this is the address of another login")
	}
	return fmt.Errorf("%w; %s", err, advice)
}

// redirectedQuery returns the query of a URL that a person has copied. Terminals and mail break
// long lines, and some people copy quotes with the text.
func redirectedQuery(text string) (url.Values, error) {
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
	values, err := url.ParseQuery(text)
	if err != nil || len(text) > maxRedirected || !strings.Contains(text, "=") {
		return nil, errors.New("this is no such address")
	}
	return values, nil
}

// complete accepts the answer of the issuer, once, and waits until the login is done or ctx
// ends. A second answer waits with the first.
func (p *Pending) complete(ctx context.Context, answer url.Values) error {
	if !answer.Has("code") && !answer.Has("error") {
		return errNoCode
	}
	redeem := func() {
		ctx, cancel := context.WithTimeout(p.logins.life.Context(), exchangeTime)
		defer cancel()
		err := errExpired
		if !expired(p) { // else the machine slept
			err = p.flow.redeem(ctx, answer)
		}
		p.end(err)
	}
	if p.claim() && !p.logins.life.Go(redeem) {
		p.end(errClosed)
	}
	return p.Wait(ctx)
}

// claim reports whether the login still waits, and no answer was accepted before.
func (p *Pending) claim() bool {
	p.logins.mu.Lock()
	defer p.logins.mu.Unlock()
	was := p.claimed || p.ended
	p.claimed = true
	return !was
}

func expired(p *Pending) bool { return !p.logins.now().Before(p.Expires.Round(0)) }

// await ends the login when it has expired or is given up.
func (p *Pending) await(ctx context.Context) {
	expiry := time.NewTimer(time.Until(p.Expires))
	defer expiry.Stop()
	err := errExpired
	select {
	case <-p.done:
		return
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-expiry.C:
	}
	switch {
	case err == errClosed:
	case !p.claim():
		<-p.done // an answer came just now, and is redeemed within exchangeTime
		return
	case err == errExpired && p.flow.reused:
		// The issuer may have shown an error instead of its login page, since it knows the client no
		// more. It tells only the person. So the next login registers again.
		ctx, cancel := context.WithTimeout(ctx, exchangeTime)
		defer cancel()
		p.flow.source.account.dropClient(ctx, p.flow.found.Issuer.ID)
	}
	p.end(err)
}

// awaitDevice ends the login when the person has entered the code.
func (p *Pending) awaitDevice(ctx context.Context) {
	bounded, cancel := context.WithDeadline(ctx, p.Expires)
	defer cancel()
	token, err := p.flow.grantor.AwaitDevice(bounded, p.Device, p.flow.scopes)
	switch {
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	case bounded.Err() != nil && err != nil:
		err = errExpired
	case err != nil:
		err = p.flow.explain(err)
	default:
		ctx, cancel := context.WithTimeout(p.logins.life.Context(), exchangeTime)
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
	if l.pending[p.key] == p {
		delete(l.pending, p.key)
	}
	l.mu.Unlock()
	p.flow.listener.close(l.life)
	log := l.log.With(zap.String("server", p.Server), zap.String("issuer", p.flow.found.Issuer.ID), zap.String("from", p.who.From))
	if err != nil {
		log.Info("a login failed", zap.String("error", plain.Line(err.Error())))
		l.record(p.who, p.Server, audit.Failed, err.Error())
	} else {
		log.Info("a login is done")
		l.record(p.who, p.Server, audit.OK, "logged in")
	}
	close(p.done)
}
