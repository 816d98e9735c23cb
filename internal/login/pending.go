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

// A Pending is a login that waits for its person. One goroutine, run, is its life.
type Pending struct {
	ID      string
	Server  string        // its name
	URL     string        // where the person logs in; it works once
	Device  *oauth.Device // nil unless Way is Device
	Expires time.Time
	Over    context.Context // ends when the login is done, has failed or has expired

	logins   *Logins
	key      string
	who      audit.Actor // that began it
	request  Request     // with the scopes of all requests for the login
	state    string
	verifier string

	// The fields below, and the exported ones, are set before ready is closed, and not changed then.
	source   *Source
	found    oauth.Found
	scopes   []string
	redirect string
	listener *loopback // nil unless it comes back to this machine
	grantor  *oauth.Grantor
	reused   bool // the client was registered for an earlier login

	giveUp  context.CancelCauseFunc // ends it, unless an answer was accepted
	answers chan url.Values         // of which one is accepted
	ready   chan struct{}           // closed when the person can log in
	end     context.CancelFunc      // of Over
	err     error                   // why the login failed; set before Over ends
}

var (
	errExpired  = errors.New("the login has expired; begin it again")
	errReplaced = errors.New("a newer login at the same server has replaced this one")
	errUnknown  = errors.New("this login is not known here: it may have expired, or another program or user has begun it; begin it again")
	errNoCode   = errors.New("the address has no answer of the issuer (code and state)")
)

// run is the life of a pending login, which ends replaced first; may be nil.
func (p *Pending) run(ctx context.Context, replaced *Pending) {
	l := p.logins
	l.record(p.who, p.Server, audit.OK, "a login began")
	if replaced != nil {
		replaced.giveUp(errReplaced)
		<-replaced.Over.Done()
	}
	p.err = p.login(ctx)
	p.giveUp(nil)
	l.mu.Lock()
	if l.pending[p.key] == p {
		delete(l.pending, p.key)
	}
	l.mu.Unlock()
	p.listener.close(l.life)
	log := l.options.Log.With(zap.String("server", p.Server), zap.String("issuer", p.found.Issuer.ID), zap.String("from", p.who.From))
	if p.err != nil {
		log.Info("a login failed", zap.String("error", plain.Line(p.err.Error())))
		l.record(p.who, p.Server, audit.Failed, p.err.Error())
	} else {
		log.Info("a login is done")
		l.record(p.who, p.Server, audit.OK, "logged in")
	}
	p.end()
}

// login prepares the login, waits for the person, and stores the tokens.
func (p *Pending) login(ctx context.Context) error {
	if err := p.prepare(ctx); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return fmt.Errorf("%s: %w", p.Server, err)
	}
	p.logins.options.Log.Info("a login began", zap.String("server", p.Server), zap.String("issuer", p.found.Issuer.ID),
		zap.String("from", p.who.From), zap.String("way", string(p.request.Way)))
	close(p.ready)
	token, err := p.token(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(p.logins.life.Context(), exchangeTime)
	defer cancel()
	err = p.source.save(ctx, storedLogin{Found: p.found, Client: p.grantor.Client, Token: token, Who: p.request.Who})
	if err != nil {
		return fmt.Errorf("the login at %s succeeded, but could not be stored: %w", p.Server, err)
	}
	return nil
}

// token waits for the person, and returns the token that the issuer grants. ctx ends the wait, but not the exchange of an answer.
func (p *Pending) token(ctx context.Context) (oauth.Token, error) {
	bounded, cancel := context.WithDeadlineCause(ctx, p.Expires, errExpired)
	defer cancel()
	if p.Device != nil {
		token, err := p.grantor.AwaitDevice(bounded, p.Device, p.scopes)
		if err != nil && bounded.Err() != nil {
			return token, context.Cause(bounded)
		}
		return token, p.explain(err)
	}
	select {
	case answer := <-p.answers:
		ctx, cancel := context.WithTimeout(p.logins.life.Context(), exchangeTime)
		defer cancel()
		if expired(p) { // since the machine slept
			return oauth.Token{}, errExpired
		}
		token, err := p.redeem(ctx, answer)
		return token, p.explain(err)
	case <-bounded.Done():
	}
	if p.reused && ctx.Err() == nil {
		// The issuer may have shown an error instead of its login page, since it knows the client no
		// more. It tells only the person. So the next login registers again.
		ctx, cancel := context.WithTimeout(ctx, exchangeTime)
		defer cancel()
		p.source.dropClient(ctx, p.found.Issuer.ID)
	}
	return oauth.Token{}, context.Cause(bounded)
}

// redeem turns the answer of the issuer into a token.
func (p *Pending) redeem(ctx context.Context, answer url.Values) (oauth.Token, error) {
	code, err := p.grantor.CheckResponse(answer)
	if err != nil {
		return oauth.Token{}, err
	}
	if err := p.source.permit(ctx, p.found.Issuer.ID, true); err != nil {
		return oauth.Token{}, err
	}
	token, err := p.grantor.Exchange(ctx, code, p.verifier, p.redirect, p.scopes)
	p.discardClient(ctx, err)
	return token, err
}

// discardClient has the next login register again if the error says that the issuer does not know
// the client.
func (p *Pending) discardClient(ctx context.Context, err error) {
	if p.grantor.Client.Registered && refusesClient(err) {
		p.source.dropClient(ctx, p.found.Issuer.ID)
	}
}

// explain says in a person's words why the login failed; nil if err is.
func (p *Pending) explain(err error) error {
	if err == nil {
		return nil
	}
	issuer := p.found.Issuer.ID
	if refusal, ok := errors.AsType[*oauth.Refusal](err); ok {
		switch refusal.Code {
		case "access_denied":
			return fmt.Errorf("the login at %s was refused at %s, by you or by its rules: %w", p.Server, issuer, err)
		case "expired_token":
			return errExpired
		}
	}
	return fmt.Errorf("the login at %s (%s) failed: %w", p.Server, issuer, err)
}

func expired(p *Pending) bool { return !p.logins.now().Before(p.Expires.Round(0)) }

// Wait waits until the login is done, has failed or has expired, or ctx ends.
func (p *Pending) Wait(ctx context.Context) error {
	select {
	case <-p.Over.Done():
		return p.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Finish completes the login with the URL to which the browser was sent, which a person has copied.
// A URL that does not belong to this login is an error, and the login waits on.
func (p *Pending) Finish(ctx context.Context, redirected string) error {
	if p.request.Way == Device {
		return fmt.Errorf("the login at %s waits for a code that you enter at %s, not for an address", p.Server, p.URL)
	}
	advice := fmt.Sprintf("copy the whole address to which the browser was sent after the login; it begins with %s?", p.redirect)
	values, err := redirectedQuery(redirected)
	switch {
	case err != nil:
	case values.Get("state") == p.state:
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

// complete hands the answer of the issuer to run, which accepts one, and waits until the login is done or ctx
// ends. A second answer waits with the first.
func (p *Pending) complete(ctx context.Context, answer url.Values) error {
	if !answer.Has("code") && !answer.Has("error") {
		return errNoCode
	}
	select {
	case p.answers <- answer:
	case <-p.Over.Done():
	case <-ctx.Done():
	}
	return p.Wait(ctx)
}
