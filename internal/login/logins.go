package login

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
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

// closeTime is how long a refresh under way may go on when the router ends.
const closeTime = 5 * time.Second

// errClosed ends logins that wait when the router ends.
var errClosed = errors.New("the router has ended; begin the login again")

// A life is how long the logins of a router go on.
type life struct {
	ctx   context.Context // ends with close
	stop  context.CancelFunc
	late  context.Context // of refreshes, which may go on for closeTime then
	abort context.CancelFunc

	mu     sync.Mutex // guards closed
	closed bool
	work   sync.WaitGroup
}

func newLife() *life {
	l := &life{}
	l.ctx, l.stop = context.WithCancel(context.Background())
	l.late, l.abort = context.WithCancel(context.Background())
	return l
}

// begin reports whether work may begin, which close waits for. It ends with l.work.Done.
func (l *life) begin() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.work.Add(1)
	}
	return !l.closed
}

// start runs the work in a goroutine, and reports whether it may.
func (l *life) start(work func()) bool {
	if !l.begin() {
		return false
	}
	go func() {
		defer l.work.Done()
		work()
	}()
	return true
}

// close waits for all work. It aborts a refresh that takes long.
func (l *life) close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.stop()
	late := time.AfterFunc(closeTime, l.abort)
	defer late.Stop()
	l.work.Wait()
	l.abort()
}
