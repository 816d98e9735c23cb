package login

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"net/http"
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
	lifetime time.Duration                          // of a pending login
	client   func(server oauth.Server) *http.Client // for requests on behalf of a server
	now      func() time.Time                       // the wall clock, which goes on while the machine sleeps

	ctx  context.Context // ends with Close
	stop context.CancelFunc
	work sync.WaitGroup // goroutines of pending logins

	mu      sync.Mutex // guards the following
	closed  bool
	sources map[identity]weak.Pointer[Source]
	pending map[request]*Pending // not done
	states  map[string]*Pending  // by state: not done, or done a short while ago
	begun   []beginning          // in the last minute, the oldest first
}

// errClosed ends logins that wait when the router ends.
var errClosed = errors.New("the router has ended; begin the login again")

// New returns the logins. Close must be called.
func New(o Options) *Logins {
	if o.Store == nil {
		o.Store = newMemory()
	}
	l := &Logins{
		options: o, log: o.Log, lifetime: Lifetime, client: oauth.NewHTTPClient, now: wall,
		sources: make(map[identity]weak.Pointer[Source]),
		pending: make(map[request]*Pending),
		states:  make(map[string]*Pending),
	}
	if l.log == nil {
		l.log = zap.NewNop()
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

// An identity is a server with its settings. It tells nothing of them.
type identity [sha256.Size]byte

func identify(s oauth.Server) identity {
	text, err := json.Marshal(s)
	if err != nil {
		panic(err) // there are only texts and numbers
	}
	return sha256.Sum256(text)
}

// Source returns the source of tokens for the server. All sessions with it share one, which is
// kept as long as one of them has it.
func (l *Logins) Source(s oauth.Server) *Source {
	id := identify(s)
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

// State returns how the login of the server is, without asking anyone.
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
