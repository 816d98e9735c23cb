package bearer

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/singleflight"
	"golang.org/x/time/rate"

	"github.com/mcp-metarouter/metarouter/internal/oauth"
	limit "github.com/mcp-metarouter/metarouter/internal/rate"
	"github.com/mcp-metarouter/metarouter/internal/signal"
	"github.com/mcp-metarouter/metarouter/internal/urls"
)

const (
	maxAnswer    = 1 << 20 // bytes of an issuer's keys
	requestTime  = 10 * time.Second
	describeTime = 10 * time.Minute // for which an issuer's metadata count
	retryTime    = 5 * time.Second  // after which something that failed is tried again
)

// An issuer is what is known of an [Issuer].
type issuer struct {
	settings   Issuer
	client     *http.Client
	log        *zap.Logger
	keys       *keys
	life       *signal.Life
	describing singleflight.Group
	unseen     *limit.Limiter // of questions about tokens (RFC 7662) that were not seen, by network
	slots      chan struct{}  // holds a value for each question under way
	strange    chan struct{}  // for those about tokens that were not seen

	mu       sync.Mutex    // guards the fields below
	metadata *oauth.Issuer // as last read; may be nil
	until    time.Time     // when they are read again
	failed   error         // of the last question
	failedAt time.Time
}

func newIssuer(settings Issuer, c *http.Client, log *zap.Logger, l *signal.Life) *issuer {
	i := &issuer{
		settings: settings, client: c, log: log, life: l,
		unseen: limit.New(unseenRate, unseenBurst), slots: make(chan struct{}, maxQuestions), strange: make(chan struct{}, maxUnseen),
	}
	i.keys = &keys{read: i.readKeys, life: l, log: log, unknown: rate.NewLimiter(rate.Every(unknownEvery), unknownBurst)}
	return i
}

func (i *issuer) readKeys(ctx context.Context) (*keySet, int, error) {
	at := i.settings.KeysURL
	if at == "" {
		m, err := i.describe(ctx)
		if err != nil {
			return nil, 0, err
		}
		if at = m.KeysURL; at == "" {
			return nil, 0, errors.New("its metadata name no keys (jwks_uri); write their address into jwksUrl")
		}
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return nil, 0, errors.New("the address of its keys is no url")
	}
	r.Header.Set("Accept", "application/jwk-set+json, application/json")
	data, err := send(i.client, r, maxAnswer)
	if err == nil {
		var set *keySet
		var left int
		if set, left, err = parseKeys(data); err == nil {
			return set, left, nil
		}
	}
	i.mu.Lock()
	i.until = time.Time{} // they may be elsewhere now
	i.mu.Unlock()
	place := url.URL{Scheme: r.URL.Scheme, Host: r.URL.Host, Path: r.URL.Path} // the query may be a secret
	return nil, 0, fmt.Errorf("its keys at %s: %w", shown(place.String()), err)
}

// A statusError is an answer that is not 200.
type statusError int

func (e statusError) Error() string {
	return fmt.Sprintf("it answers %d %s", int(e), http.StatusText(int(e)))
}

// send returns the answer of 200 to a request, of so many bytes at most.
func send(c *http.Client, r *http.Request, most int) ([]byte, error) {
	resp, err := c.Do(r)
	if err != nil {
		return nil, urls.Cause(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, statusError(resp.StatusCode)
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, int64(most)+1))
	if err == nil && len(data) > most {
		err = fmt.Errorf("the answer is longer than %d bytes", most)
	}
	return data, err
}

// describe returns the metadata of the issuer; while it does not answer, as they were read last.
func (i *issuer) describe(ctx context.Context) (*oauth.Issuer, error) {
	i.mu.Lock()
	known, until := i.metadata, i.until
	i.mu.Unlock()
	if time.Now().Before(until) {
		return known, nil
	}
	found, err, _ := i.describing.Do("", func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTime) // others may wait for longer than this caller
		defer cancel()
		return oauth.Describe(ctx, i.client, i.settings.URL)
	})
	i.mu.Lock()
	defer i.mu.Unlock()
	switch {
	case err == nil:
		i.metadata, i.until = found.(*oauth.Issuer), time.Now().Add(describeTime)
	case i.metadata == nil:
		return nil, err
	default:
		i.until = time.Now().Add(retryTime)
	}
	return i.metadata, nil
}

// Probe reads the metadata of an issuer, and its keys, once, and returns how many of the keys can
// verify tokens and how many can't. With Introspect it asks about a token that was never issued, by
// which the issuer shows whether it accepts the client's ID and secret. It takes 10 s at most. The
// error says why the issuer can't be read, or asked after the keys were read, and has no secret.
func Probe(ctx context.Context, settings Issuer) (usable, others int, err error) {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	i := newIssuer(settings, client(settings), zap.NewNop(), signal.NewLife())
	set, others, err := i.readKeys(ctx)
	if err != nil {
		return 0, 0, err
	}
	if settings.Introspect {
		_, err = i.post(ctx, rand.Text())
	}
	return len(set.all), others, err
}
