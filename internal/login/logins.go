package login

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/internal/audit"
	"github.com/mcp-metarouter/metarouter/internal/oauth"
	"github.com/mcp-metarouter/metarouter/internal/rate"
	"github.com/mcp-metarouter/metarouter/internal/signal"
	"github.com/mcp-metarouter/metarouter/internal/wire"
)

// maxSources bounds the sources of tokens that are kept. One that is dropped is made again; no login depends on it.
const maxSources = 5000

// Options configure [Logins].
type Options struct {
	Store *Store

	// PublicURL returns the URL by which browsers reach the router's HTTP server, which may have a
	// path below which it serves all of its own; "" if they can't. nil is "".
	PublicURL func() string

	Audit audit.Recorder // of logins that begin, end or fail, and of logouts; nil records nothing

	Log *zap.Logger // never has a token, a code or a secret
}

// Logins are the logins of a router. Its methods may be called by many goroutines at once.
type Logins struct {
	options  Options
	lifetime time.Duration    // of a pending login
	now      func() time.Time // the wall clock, which goes on while the machine sleeps
	life     *signal.Life
	begun    *rate.Limiter // of logins that begin, by server and principal

	mu      sync.Mutex // guards the following
	sources map[string]*Source
	pending map[string]*Pending // not done, by their keys
}

// New returns the logins. Close must be called.
func New(o Options) *Logins {
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	return &Logins{
		options: o, lifetime: Lifetime, now: wall, life: signal.NewLife(), begun: rate.PerMinute(perMinute),
		sources: make(map[string]*Source),
		pending: make(map[string]*Pending),
	}
}

// Close gives up pending logins, and waits for closeTime at most for refreshes under way.
func (l *Logins) Close() {
	l.life.Close(errClosed)
	l.life.Wait()
}

// settingsKey identifies a server with its settings.
func settingsKey(s oauth.Server) string { return hash(string(wire.Marshal(s))) }

// Source returns the source of tokens for the server, which all sessions with it share.
func (l *Logins) Source(s oauth.Server) *Source {
	id := settingsKey(s)
	l.mu.Lock()
	defer l.mu.Unlock()
	source := l.sources[id]
	if source == nil {
		makeRoom(l.sources, id, maxSources) // each principal has its own; what is in use goes on
		source = newSource(l.options, s, oauth.NewHTTPClient(s), l.life)
		l.sources[id] = source
	}
	return source
}

// A Held login is one in the store.
type Held struct {
	Server    string    `json:"server"` // its name at the login
	User      string    `json:"user"`   // the name of the principal; "" is the local user, or all clients
	ID        string    `json:"id"`     // tells principals of one name apart; "" is the local user
	Issuer    string    `json:"issuer"`
	Scopes    []string  `json:"scopes,omitempty"`
	Used      time.Time `json:"used"`   // by the principal last, within half a day; of the local user the login or its last renewal
	Renews    bool      `json:"renews"` // there is a refresh token
	URL       string    `json:"-"`      // of the server
	Principal string    `json:"-"`
}

// At reports whether the login is at the server.
func (h Held) At(s oauth.Server) bool { return h.URL == bare(s.URL) }

// All returns all logins in the store, sorted by server and user.
func (l *Logins) All(ctx context.Context) ([]Held, error) {
	c, err := l.options.Store.read(ctx, false)
	if err != nil {
		return nil, err
	}
	all := []Held{}
	for _, s := range c.Logins {
		if s.Server == "" || s.Token.Access == "" && s.Token.Refresh == "" {
			continue
		}
		h := Held{Server: s.Server, User: s.Who, URL: s.URL, Principal: s.Principal, Issuer: s.Found.Issuer.ID, Scopes: s.Token.Scopes, Used: s.Used, Renews: s.Token.Refresh != ""}
		if s.Principal != "" {
			h.ID = hash("shown", s.Principal)[:12] // the principal itself may be the hash of a token
		}
		all = append(all, h)
	}
	slices.SortFunc(all, func(a, b Held) int {
		return cmp.Or(cmp.Compare(a.Server, b.Server), cmp.Compare(a.User, b.User), cmp.Compare(a.ID, b.ID))
	})
	return all, nil
}

// State returns how the login of the server is, without asking the server or the issuer.
func (l *Logins) State(ctx context.Context, s oauth.Server) (State, error) {
	account := &l.Source(s).account
	saved, err := account.saved(ctx)
	if err != nil {
		return State{}, err
	}
	_, why := account.state()
	if saved == nil {
		return State{Why: why}, nil
	}
	t := saved.Token
	return State{
		LoggedIn: ageOf(t, l.now()) != tooOld || t.Refresh != "",
		Issuer:   saved.Found.Issuer.ID,
		Scopes:   t.Scopes,
		Expires:  t.Expires,
		Renews:   t.Refresh != "",
		Why:      why,
	}, nil
}

// closeTime is how long a refresh under way may go on when the router ends.
const closeTime = 5 * time.Second

// errClosed ends logins that wait when the router ends.
var errClosed = errors.New("the router has ended; begin the login again")

// revokeTime bounds the request to forget tokens.
const revokeTime = 15 * time.Second

// errLoggedOut ends pending logins of the server.
var errLoggedOut = errors.New("the server was logged out meanwhile; begin the login again")

// Logout ends the login of the server: it forgets the tokens, and has the issuer revoke them. The
// error says which tokens the issuer did not revoke; the tokens are forgotten in any case. It also forgets
// at which issuer the client of the settings was used, so that the server may name another one. It
// reports whether there was anything to forget.
func (l *Logins) Logout(ctx context.Context, s oauth.Server) (was bool, err error) {
	id := key(s)
	l.mu.Lock()
	var pending []*Pending
	for _, p := range l.pending {
		if key(p.request.Server) == id {
			pending = append(pending, p)
		}
	}
	l.mu.Unlock()
	for _, p := range pending {
		p.giveUp(errLoggedOut)
		select {
		case <-p.Over.Done(): // if an answer was accepted, its tokens are forgotten below
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
	source := l.Source(s)
	var saved *storedLogin
	if was, err = source.unpin(ctx); err == nil {
		saved, err = source.forget(ctx)
	}
	if err != nil {
		l.record(audit.ActorOf(ctx), s.Name, audit.Failed, "the login can't be ended: "+err.Error())
		return false, fmt.Errorf("%s: %w", s.Name, err)
	}
	if saved == nil {
		return was, nil
	}
	issuer := saved.Found.Issuer.ID
	l.options.Log.Info("logged out", zap.String("server", s.Name), zap.String("issuer", issuer))
	l.record(audit.ActorOf(ctx), s.Name, audit.OK, "logged out")
	ctx, cancel := context.WithTimeout(ctx, revokeTime)
	defer cancel()
	if err := grantor(source.http, s.Settings, saved.Found, saved.Client).Revoke(ctx, saved.Token); err != nil {
		return true, fmt.Errorf("%s: the tokens are forgotten, but %s did not revoke them: %w", s.Name, issuer, err)
	}
	return true, nil
}
