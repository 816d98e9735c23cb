// Package bearer verifies access tokens that identity providers issue for this router, as a
// resource server does: JWTs by the keys of their issuer (RFC 9068), others by asking the issuer
// (RFC 7662).
//
// # Refusals
//
// A JWT is judged by the issuer that it names, which must be one of those that the caller accepts, byte for
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
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/oauthex"
	"go.uber.org/zap"
	"golang.org/x/sync/singleflight"

	"github.com/mcp-metarouter/metarouter/internal/clientauth"
	"github.com/mcp-metarouter/metarouter/internal/oauth"
	"github.com/mcp-metarouter/metarouter/internal/prose"
	"github.com/mcp-metarouter/metarouter/internal/signal"
)

const (
	maxToken  = 16 << 10         // bytes of a token
	keepTime  = 60 * time.Second // for a verified token
	clockSkew = 60 * time.Second
)

// An Issuer is who issues tokens. One with other settings is another issuer.
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
	Client func(Issuer) *http.Client // for requests to an issuer; nil is [oauth.NewHTTPClient]
	Log    *zap.Logger
}

// A Verifier verifies tokens. It must be closed. Its methods may be called by many goroutines at
// once.
type Verifier struct {
	Options
	kept   cache
	turns  turns
	life   *signal.Life
	asking singleflight.Group // questions about tokens, by their hash

	mu    sync.Mutex // guards known
	known map[Issuer]*issuer
}

// New returns a verifier. It sends nothing until a token comes.
func New(o Options) *Verifier {
	if o.Client == nil {
		o.Client = client
	}
	return &Verifier{Options: o, turns: newTurns(), life: signal.NewLife(), known: map[Issuer]*issuer{}}
}

// client returns the client for an issuer. Its URLs are the configuration's, so that they may have
// any address; the URLs in its metadata may not be more private.
func client(i Issuer) *http.Client {
	return oauth.NewHTTPClient(oauth.Server{URL: i.URL, Settings: oauth.Settings{AuthServerMetadataURL: i.KeysURL}})
}

// Close ends the requests to issuers and waits for them. Tokens that need one can't be judged any more.
func (v *Verifier) Close() {
	v.life.Close(nil)
	v.life.Wait()
}

// issuer returns what is known of an issuer. At the first use of one, those that are not accepted any
// more are forgotten.
func (v *Verifier) issuer(settings Issuer, accepted []Issuer) *issuer {
	v.mu.Lock()
	defer v.mu.Unlock()
	i := v.known[settings]
	if i == nil {
		maps.DeleteFunc(v.known, func(other Issuer, _ *issuer) bool { return !slices.Contains(accepted, other) })
		i = newIssuer(settings, v.Client(settings), v.Log.With(zap.String("issuer", settings.URL)), v.life)
		v.known[settings] = i
	}
	return i
}

// A verified is a token that was found valid, but for its audience and the present time.
type verified struct {
	*Token
	issuer   *issuer
	audience []string
	key      *keyID // that verified it; nil of a token that the issuer was asked about
}

// Verify returns the content of the token if one of the issuers, in the order in which they are asked, has issued it
// for the resource, a URL. What is known of an issuer stays known as long as it is accepted. The error is
// a [*clientauth.Refusal] without the token, or wraps ErrUnavailable or the error of ctx.
func (v *Verifier) Verify(ctx context.Context, accepted []Issuer, token, resource string) (*Token, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := checkText(token); err != nil {
		return nil, err
	}
	t, err := v.find(ctx, accepted, token)
	if err != nil {
		return nil, err
	}
	want := cmp.Or(t.issuer.settings.Audience, resource)
	if want == "" || !oauthex.MatchesResource(t.audience, want) {
		audience := append([]string{shown(t.audience[0])}, t.audience[1:]...)
		return nil, genuine(invalid("its audience is %s, not %s", prose.List(audience, 1), shown(want)))
	}
	return t.Token, nil
}

// find returns the token as it is kept, or judges it.
func (v *Verifier) find(ctx context.Context, accepted []Issuer, token string) (*verified, error) {
	sum := sha256.Sum256([]byte(token))
	known, ok := v.kept.get(sum)
	ok = ok && slices.Contains(accepted, known.issuer.settings) // else the issuer was edited
	if ok && time.Now().Before(known.fresh) {
		if counts, err := known.counts(ctx); err != nil {
			return nil, err
		} else if counts {
			return known.token, nil
		}
	}
	j, err := parseJWT(token)
	switch {
	case err != nil:
		return nil, err
	case j == nil && ok:
		return v.ask(ctx, accepted, token, sum, known.token)
	case j == nil:
		return v.ask(ctx, accepted, token, sum, nil)
	}
	n := slices.IndexFunc(accepted, func(i Issuer) bool { return i.URL == j.issuer })
	if n < 0 {
		why := "which this router does not know"
		bare := strings.TrimSuffix(j.issuer, "/")
		if slices.ContainsFunc(accepted, func(i Issuer) bool { return strings.TrimSuffix(i.URL, "/") == bare }) {
			why = "which differs from the configured url by a slash at the end"
		}
		return nil, invalid("its issuer is %s, %s", shown(j.issuer), why)
	}
	t, err := v.issuer(accepted[n], accepted).verify(ctx, j, v.turns)
	if err != nil {
		return nil, err
	}
	v.kept.put(sum, verdict{token: t, issuer: t.issuer, fresh: time.Now().Add(keepTime)}, keepTime)
	return t, nil
}

// ErrUnavailable is wrapped by errors of tokens that can't be judged now, since their issuer does
// not answer. The rest of the text of such an error is for logs, not for clients.
var ErrUnavailable = errors.New("the issuer does not answer")

// errClosed is the error of a verifier that was closed.
var errClosed = fmt.Errorf("%w: the verifier is closed", ErrUnavailable)

const maxShown = 100 // bytes of a token's issuer or audience

// invalid returns why a token is refused, as a client may read it, in at most 300 bytes. The format and its texts must have only the
// characters of an error_description (RFC 6750, section 3), as [shown] returns them.
func invalid(format string, args ...any) error {
	return &clientauth.Refusal{Status: http.StatusUnauthorized, Reason: fmt.Sprintf(format, args...)}
}

// genuine returns the refusal of a token that the issuer has issued.
func genuine(err error) error {
	if refused, ok := errors.AsType[*clientauth.Refusal](err); ok {
		refused.Genuine = true
	}
	return err
}

// shown returns a text for a reason, shortened, with ? for each character that may not stand in an error_description.
func shown(text string) string {
	if text == "" {
		return "empty"
	}
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' || r == '"' || r == '\\' {
			return '?'
		}
		return r
	}, text)
	if len(text) > maxShown {
		text = text[:maxShown-3] + "..."
	}
	return text
}
