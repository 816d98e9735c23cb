package bearer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/internal/oauth"
	"github.com/mcp-metarouter/metarouter/internal/urls"
)

const (
	maxAnswer    = 1 << 20 // bytes of an issuer's keys
	requestTime  = 10 * time.Second
	describeTime = 10 * time.Minute // for which an issuer's metadata count
	retryTime    = 10 * time.Second // after which something that failed is tried again
)

// An issuer is one of the issuers of a verifier.
type issuer struct {
	settings Issuer
	client   *http.Client
	metadata metadata
	keys     *keys
	opaque   *introspection
	turns    turns
	work     *work // may belong to several verifiers
}

func newIssuer(settings Issuer, c *http.Client, log *zap.Logger, w *work, t turns) *issuer {
	i := &issuer{settings: settings, client: c, turns: t, work: w, metadata: metadata{turn: make(chan struct{}, 1)}}
	i.keys = newKeys(i.readKeys, log, w)
	i.opaque = newIntrospection(i, log, w)
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
	data, err := i.get(ctx, at)
	if err == nil {
		var set *keySet
		var left int
		if set, left, err = parseKeys(data); err == nil {
			return set, left, nil
		}
	}
	i.metadata.expire()
	return nil, 0, fmt.Errorf("its keys at %s: %w", withoutQuery(at), err)
}

// get reads a document of the issuer.
func (i *issuer) get(ctx context.Context, at string) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return nil, errors.New("this is no url")
	}
	r.Header.Set("Accept", "application/jwk-set+json, application/json")
	resp, err := i.client.Do(r)
	if err != nil {
		return nil, urls.Cause(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("it answers %d %s", resp.StatusCode, http.StatusText(resp.StatusCode))
	}
	return readBounded(resp.Body, maxAnswer)
}

func readBounded(r io.Reader, most int) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, int64(most)+1))
	if err == nil && len(data) > most {
		err = fmt.Errorf("the answer is longer than %d bytes", most)
	}
	return data, err
}

func withoutQuery(at string) string {
	u, err := url.Parse(at)
	if err != nil {
		return "what is no url"
	}
	return shown((&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String())
}

// metadata is an issuer's description of itself, as last read.
type metadata struct {
	turn chan struct{} // holds a value during a read

	mu    sync.Mutex // guards the fields below
	known *oauth.Issuer
	until time.Time // when it is read again
}

// describe returns the metadata of the issuer; while it does not answer, as they were read last.
func (i *issuer) describe(ctx context.Context) (*oauth.Issuer, error) {
	m := &i.metadata
	if known := m.get(); known != nil {
		return known, nil
	}
	select {
	case m.turn <- struct{}{}:
		defer func() { <-m.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if known := m.get(); known != nil {
		return known, nil
	}
	found, err := oauth.Describe(ctx, i.client, i.settings.URL)
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case err == nil:
		m.known, m.until = found, time.Now().Add(describeTime)
	case m.known == nil:
		return nil, err
	default:
		m.until = time.Now().Add(retryTime)
	}
	return m.known, nil
}

// get returns the metadata; nil if they must be read.
func (m *metadata) get() *oauth.Issuer {
	m.mu.Lock()
	defer m.mu.Unlock()
	if time.Now().Before(m.until) {
		return m.known
	}
	return nil
}

// expire makes the next use read the metadata.
func (m *metadata) expire() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.until = time.Time{}
}

// An outage logs when something begins to fail and when it works again.
type outage struct {
	log  *zap.Logger
	mu   sync.Mutex // guards down
	down bool
}

// note notes that something failed with this error, or worked.
func (o *outage) note(err error, failed, works string) {
	o.mu.Lock()
	was := o.down
	o.down = err != nil
	o.mu.Unlock()
	switch {
	case err != nil && !was:
		o.log.Warn(failed, zap.Error(err))
	case err == nil && was:
		o.log.Info(works)
	}
}
