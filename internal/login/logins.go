package login

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"sync"
	"time"
	"weak"

	"go.uber.org/zap"

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
	loopback loopbacks
	lifetime time.Duration    // of a pending login
	now      func() time.Time // the wall clock, which goes on while the machine sleeps

	ctx  context.Context // ends with Close
	stop context.CancelFunc
	work sync.WaitGroup // goroutines of pending logins

	mu      sync.Mutex // guards the following
	closed  bool
	sources map[settingsKey]weak.Pointer[Source]
	pending map[loginKey]*Pending // not done
	states  map[string]*Pending   // by state: not done, or done a short while ago
	begun   []beginning           // in the last minute, the oldest first
}

// errClosed ends logins that wait when the router ends.
var errClosed = errors.New("the router has ended; begin the login again")

// New returns the logins. Close must be called.
func New(o Options) *Logins {
	if o.Store == nil {
		o.Store = newMemory()
	}
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	l := &Logins{
		options: o, log: o.Log, lifetime: Lifetime, now: wall,
		sources: make(map[settingsKey]weak.Pointer[Source]),
		pending: make(map[loginKey]*Pending),
		states:  make(map[string]*Pending),
	}
	l.ctx, l.stop = context.WithCancel(context.Background())
	l.loopback.serve = l.serveLoopback
	return l
}

// Close gives up pending logins and waits for refreshes under way.
func (l *Logins) Close() {
	l.mu.Lock()
	l.closed = true
	var sources []*Source
	for _, kept := range l.sources {
		if s := kept.Value(); s != nil {
			sources = append(sources, s)
		}
	}
	l.mu.Unlock()
	l.stop()
	l.work.Wait()
	l.loopback.wait()
	for _, s := range sources {
		s.tasks.close()
	}
}

// A settingsKey identifies a server with its settings, without revealing them.
type settingsKey [sha256.Size]byte

func settingsKeyOf(s oauth.Server) settingsKey {
	text, err := json.Marshal(s)
	if err != nil {
		panic(err) // there are only texts and numbers
	}
	return sha256.Sum256(text)
}

// Source returns the source of tokens for the server. All sessions with it share one, which is
// kept as long as one of them has it.
func (l *Logins) Source(s oauth.Server) *Source {
	id := settingsKeyOf(s)
	l.mu.Lock()
	defer l.mu.Unlock()
	if source := l.sources[id].Value(); source != nil {
		return source
	}
	for other, kept := range l.sources {
		if kept.Value() == nil {
			delete(l.sources, other)
		}
	}
	source := newSource(l.options, s, remote{oauth.NewHTTPClient(s)})
	l.sources[id] = weak.Make(source)
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
