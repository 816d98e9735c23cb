// Package bearer verifies access tokens that identity providers issue for this router, as a
// resource server does: JWTs by the keys of their issuer (RFC 9068), others by asking the issuer
// (RFC 7662).
//
// # Refusals
//
// A JWT is judged by the issuer that it names, which must be one of [Options].Issuers byte for
// byte. It must be signed with an asymmetric algorithm by a key of this issuer's key set that fits
// the algorithm. Headers that bring or name a key (jku, x5u, jwk, x5c), critical headers, and
// payloads that are not encoded are refused, and so are encrypted tokens and tokens of other types.
// It must name the audience and an end, and be within its times, with 60 s for clocks that differ.
// Tokens that are bound to a key or a certificate of their client (cnf: DPoP, mTLS) are refused:
// a stolen one must be of no use, and this package does not check who sends it.
//
// # How long an answer counts
//
// A verified token is kept by its SHA-256 until it expires, at most 60 s. Its key must be in the
// issuer's key set at each use. The set is read again, in use, when it is older than 45 s; a token
// waits for that when it is older than 60 s. So a key that an issuer removes is useless after 60 s.
// While an issuer does not answer, its last keys stay in use, for up to a day.
package bearer

import (
	"context"
	"crypto/sha256"
	"errors"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/oauthex"
	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/internal/oauth"
)

const (
	maxToken  = 16 << 10         // bytes of a token
	maxKept   = 10_000           // verified tokens
	maxBytes  = 32 << 20         // of these tokens
	keepTime  = 60 * time.Second // for a verified token
	clockSkew = 60 * time.Second
)

// An Issuer is who issues tokens.
type Issuer struct {
	URL          string // the issuer identifier, compared with "iss" byte for byte
	Audience     string // that tokens must name; "" is the resource that is asked for
	KeysURL      string // "" finds it in the issuer's metadata
	ClientID     string // of the router, for introspection
	ClientSecret string
	Introspect   bool // ask about tokens that are no JWT
}

// Options of a [Verifier].
type Options struct {
	Issuers []Issuer
	Client  func(Issuer) *http.Client // for requests to an issuer; nil is [oauth.NewHTTPClient]
	Log     *zap.Logger               // may be nil
	Before  *Verifier                 // not closed: its knowledge of issuers that stay as they are is kept; may be nil
}

// A Verifier verifies tokens. It must be closed. Its methods may be called by many goroutines at
// once.
type Verifier struct {
	issuers map[string]*issuer // by URL
	asked   []*issuer          // those with Introspect, in order
	kept    *cache[*verified]
	turns   turns
	closing sync.Once
}

// New returns a verifier. It sends nothing until a token comes.
func New(o Options) *Verifier {
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	if o.Client == nil {
		o.Client = client
	}
	v := &Verifier{
		issuers: map[string]*issuer{},
		kept:    newCache[*verified](maxKept, maxBytes),
		turns:   newTurns(),
	}
	if o.Before != nil {
		v.kept, v.turns = o.Before.kept, o.Before.turns
	}
	for _, settings := range o.Issuers {
		if _, twice := v.issuers[settings.URL]; twice {
			continue
		}
		i := o.Before.share(settings)
		if i == nil {
			i = newIssuer(settings, o.Client(settings), o.Log.With(zap.String("issuer", settings.URL)), newWork(), v.turns)
		}
		v.issuers[settings.URL] = i
		if settings.Introspect {
			v.asked = append(v.asked, i)
		}
	}
	return v
}

// client returns the client for an issuer. Its URLs are the configuration's, so that they may have
// any address; the URLs in its metadata may not be more private.
func client(i Issuer) *http.Client {
	name := i.URL
	if u, err := url.Parse(i.URL); err == nil {
		name = u.Host
	}
	return oauth.NewHTTPClient(oauth.Server{Name: name, URL: i.URL, Settings: oauth.Settings{AuthServerMetadataURL: i.KeysURL}})
}

// share returns the issuer with these settings for one more verifier; nil if v does not have it.
func (v *Verifier) share(settings Issuer) *issuer {
	if v == nil {
		return nil
	}
	i := v.issuers[settings.URL]
	if i == nil || i.settings != settings || !i.work.share() {
		return nil
	}
	return i
}

// Close ends the requests of the verifier and waits for them, but for issuers that another verifier
// has taken over.
func (v *Verifier) Close() {
	v.closing.Do(func() {
		for _, i := range v.issuers {
			i.work.close()
		}
	})
}

// A verified is a token that was found valid, but for its audience and the present time.
type verified struct {
	*Token
	issuer   *issuer
	audience []string
	key      *keyID // that verified it; nil of a token that the issuer was asked about
}

// Verify returns the content of the token if it is valid for the resource, a URL. The error is an
// [*InvalidError], or wraps ErrUnavailable or the error of ctx.
func (v *Verifier) Verify(ctx context.Context, token, resource string) (*Token, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := checkText(token); err != nil {
		return nil, err
	}
	t, err := v.find(ctx, token)
	if err != nil {
		return nil, err
	}
	if err := t.checkAudience(resource); err != nil {
		return nil, err
	}
	return t.Token, nil
}

// find returns the token as it is kept, or judges it.
func (v *Verifier) find(ctx context.Context, token string) (*verified, error) {
	sum := sha256.Sum256([]byte(token))
	if t, ok := v.kept.get(sum); ok && v.issuers[t.issuer.settings.URL] == t.issuer { // else the issuer was edited
		counts, err := t.counts(ctx)
		if err != nil || counts {
			return t, err
		}
		v.kept.drop(sum)
	}
	t, err := v.judge(ctx, token, sum)
	if err != nil {
		return nil, err
	}
	v.kept.put(sum, t, time.Now().Add(keepTime), len(token))
	return t, nil
}

// counts reports whether a token that is kept still counts: it has not expired, by the clock on
// the wall, and its key is in force.
func (t *verified) counts(ctx context.Context) (bool, error) {
	if hasExpired(t.Expires) {
		return false, nil
	}
	if t.key == nil {
		return true, nil
	}
	keys, err := t.issuer.keys.current(ctx)
	return err == nil && keys.has(*t.key), err
}

// judge verifies a token that is not kept.
func (v *Verifier) judge(ctx context.Context, token string, sum [sha256.Size]byte) (*verified, error) {
	j, err := parseJWT(token)
	switch {
	case err != nil:
		return nil, err
	case j == nil:
		return v.ask(ctx, token, sum)
	}
	i, ok := v.issuers[j.issuer]
	if !ok {
		return nil, v.stranger(j.issuer)
	}
	return i.verify(ctx, j)
}

// checkAudience refuses a token that is for something else.
func (t *verified) checkAudience(resource string) error {
	want := resource
	if t.issuer.settings.Audience != "" {
		want = t.issuer.settings.Audience
	}
	if want != "" && oauthex.MatchesResource(t.audience, want) {
		return nil
	}
	return invalid("its audience is %s, not %s", shownAudience(t.audience), shown(want))
}

// An InvalidError says why a token is refused, without the token. The Reason is printable ASCII
// without quotes and backslashes, at most 300 bytes.
type InvalidError struct{ Reason string }

func (e *InvalidError) Error() string { return "the token is refused: " + e.Reason }

// ErrUnavailable is wrapped by errors of tokens that can't be judged now, since their issuer does
// not answer. The rest of the text of such an error is for logs, not for clients.
var ErrUnavailable = errors.New("the issuer does not answer")

// errClosed is the error of a verifier that was closed.
var errClosed = errors.New("the verifier is closed")

// work are the goroutines of an issuer, until close was called as often as newWork and share.
type work struct {
	ctx    context.Context
	cancel context.CancelFunc

	mu      sync.Mutex // guards the fields below
	owners  int        // 0 when it is closed
	running sync.WaitGroup
}

func newWork() *work {
	w := &work{owners: 1}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	return w
}

// share adds an owner. It reports false if the work was closed.
func (w *work) share() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.owners > 0 {
		w.owners++
	}
	return w.owners > 0
}

// begin counts a goroutine in, which must call running.Done. It reports false if the work was closed.
func (w *work) begin() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.owners > 0 {
		w.running.Add(1)
	}
	return w.owners > 0
}

func (w *work) close() {
	w.mu.Lock()
	w.owners--
	last := w.owners == 0
	w.mu.Unlock()
	if last {
		w.cancel()
		w.running.Wait()
	}
}
