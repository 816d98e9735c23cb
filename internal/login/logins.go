package login

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"sync"
	"time"

	"go.uber.org/zap"
	limit "golang.org/x/time/rate"

	"github.com/mcp-metarouter/metarouter/internal/audit"
	"github.com/mcp-metarouter/metarouter/internal/oauth"
)

// Options configure [Logins].
type Options struct {
	Store *Store // nil keeps logins in memory only

	// PublicURL returns the URL by which browsers reach the router's HTTP server, which may have a
	// path below which it serves all of its own; "" if they can't. nil is "".
	PublicURL func() string

	Audit audit.Recorder // of logins that begin, end or fail, and of logouts; nil records nothing

	Log *zap.Logger // never has a token, a code or a secret
}

// Logins are the logins of a router. Its methods may be called by many goroutines at once.
type Logins struct {
	options  Options
	log      *zap.Logger
	lifetime time.Duration    // of a pending login
	now      func() time.Time // the wall clock, which goes on while the machine sleeps
	life     *life

	mu      sync.Mutex // guards the following
	sources map[settingsKey]*Source
	pending map[loginKey]*Pending     // not done
	begun   map[string]*limit.Limiter // of logins that begin, by server
}

// New returns the logins. Close must be called.
func New(o Options) *Logins {
	if o.Store == nil {
		o.Store = newMemory()
	}
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	return &Logins{
		options: o, log: o.Log, lifetime: Lifetime, now: wall, life: newLife(),
		sources: make(map[settingsKey]*Source),
		pending: make(map[loginKey]*Pending),
		begun:   make(map[string]*limit.Limiter),
	}
}

// Close gives up pending logins and waits for refreshes under way.
func (l *Logins) Close() { l.life.close() }

// A settingsKey identifies a server with its settings, without revealing them.
type settingsKey [sha256.Size]byte

func settingsKeyOf(s oauth.Server) settingsKey {
	text, err := json.Marshal(s)
	if err != nil {
		panic(err) // there are only texts and numbers
	}
	return sha256.Sum256(text)
}

// Source returns the source of tokens for the server, which all sessions with it share.
func (l *Logins) Source(s oauth.Server) *Source {
	id := settingsKeyOf(s)
	l.mu.Lock()
	defer l.mu.Unlock()
	source := l.sources[id]
	if source == nil {
		source = newSource(l.options, s, remote{oauth.NewHTTPClient(s)}, l.life)
		l.sources[id] = source
	}
	return source
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
