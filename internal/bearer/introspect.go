package bearer

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/singleflight"
	"golang.org/x/time/rate"

	"github.com/mcp-metarouter/metarouter/internal/urls"
)

const (
	inactiveTime  = 10 * time.Second // for which a refusal counts
	seenTime      = 24 * time.Hour   // for which a token that was valid counts as seen
	maxQuestions  = 8                // at an issuer at once
	maxUnseen     = 4                // of these, about tokens that were never valid
	unseenRate    = 10               // a second, at an issuer
	unseenBurst   = 20
	pauseTime     = 2 * time.Second // in which an issuer that failed is not asked
	maxTokenReply = 64 << 10        // bytes
)

// ask asks the issuers about a token that is no JWT, in their order, until one knows it. Only the
// issuer that knew it before is asked again. Where one can't be asked, the token may be its own: it
// is not shown to those after it, who could use it.
func (v *Verifier) ask(ctx context.Context, token string, sum [sha256.Size]byte) (*verified, error) {
	for _, i := range v.asked {
		if _, seen := i.opaque.seen.get(sum); seen {
			return i.opaque.ask(ctx, token, sum)
		}
	}
	err := invalid("it is no signed JWT that names its issuer (iss)")
	for n, i := range v.asked {
		t, failed := i.opaque.ask(ctx, token, sum)
		if failed == nil {
			return t, nil
		}
		if _, refused := errors.AsType[*InvalidError](failed); !refused {
			return nil, failed
		}
		if n == 0 {
			err = failed
		}
	}
	return nil, err
}

// An introspection asks an issuer about tokens (RFC 7662).
type introspection struct {
	issuer   *issuer
	work     *work
	outage   *outage
	inactive *cache[error]    // refused tokens
	seen     *cache[struct{}] // tokens that were valid
	unseen   *rate.Limiter    // of questions about others
	slots    chan struct{}    // holds a value for each question under way
	strange  chan struct{}    // those about tokens that are not seen

	underWay singleflight.Group // questions, by the hash of the token

	mu     sync.Mutex // guards paused
	paused time.Time  // until when it is not asked
}

func newIntrospection(i *issuer, log *zap.Logger, w *work) *introspection {
	return &introspection{
		issuer: i, work: w, outage: &outage{log: log},
		inactive: newCache[error](maxKept, maxBytes),
		seen:     newCache[struct{}](maxKept, maxBytes),
		unseen:   rate.NewLimiter(unseenRate, unseenBurst),
		slots:    make(chan struct{}, maxQuestions),
		strange:  make(chan struct{}, maxUnseen),
	}
}

// ask returns the token if the issuer says that it is valid. Callers with the same token share a
// question.
func (n *introspection) ask(ctx context.Context, token string, sum [sha256.Size]byte) (*verified, error) {
	if err, ok := n.inactive.get(sum); ok {
		return nil, err
	}
	select {
	case r := <-n.underWay.DoChan(string(sum[:]), func() (any, error) { return n.question(token, sum) }):
		t, _ := r.Val.(*verified)
		return t, r.Err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// question asks the issuer, unless it must be left alone.
func (n *introspection) question(token string, sum [sha256.Size]byte) (*verified, error) {
	n.mu.Lock()
	paused := time.Now().Before(n.paused)
	n.mu.Unlock()
	if paused {
		return nil, fmt.Errorf("%w: it was asked just before", ErrUnavailable)
	}
	_, seen := n.seen.get(sum)
	if !seen && !n.unseen.AllowN(time.Now(), 1) {
		return nil, fmt.Errorf("%w: too many unknown tokens came at once", ErrUnavailable)
	}
	if !n.work.begin() {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, errClosed)
	}
	defer n.work.running.Done()
	ctx, cancel := context.WithTimeout(n.work.ctx, requestTime)
	defer cancel()
	turns := []chan struct{}{n.slots}
	if !seen {
		turns = []chan struct{}{n.strange, n.slots}
	}
	for _, turn := range turns {
		select {
		case turn <- struct{}{}:
			defer func() { <-turn }()
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: it has too many questions to answer", ErrUnavailable)
		}
	}
	claims, err := n.post(ctx, token)
	if n.work.ctx.Err() == nil {
		n.outage.note(err, "the issuer can't be asked about tokens", "the issuer can be asked about tokens again")
	}
	if err != nil {
		n.mu.Lock()
		n.paused = time.Now().Add(pauseTime)
		n.mu.Unlock()
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	t, err := n.judge(claims)
	if err != nil {
		n.inactive.put(sum, err, time.Now().Add(inactiveTime), len(sum))
		return nil, err
	}
	n.seen.put(sum, struct{}{}, time.Now().Add(seenTime), len(sum))
	return t, nil
}

// post sends the token to the issuer and returns its answer.
func (n *introspection) post(ctx context.Context, token string) (map[string]json.RawMessage, error) {
	m, err := n.issuer.describe(ctx)
	if err != nil {
		return nil, err
	}
	if m.IntrospectionEndpoint == "" {
		return nil, errors.New("its metadata name no introspection_endpoint; set introspect to false")
	}
	form := url.Values{"token": {token}, "token_type_hint": {"access_token"}}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, m.IntrospectionEndpoint, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, errors.New("its introspection_endpoint is no url")
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Accept", "application/json")
	s := n.issuer.settings
	r.SetBasicAuth(url.QueryEscape(s.ClientID), url.QueryEscape(s.ClientSecret)) // RFC 6749, section 2.3.1
	c := *n.issuer.client
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse } // with a token and a secret
	resp, err := c.Do(r)
	if err != nil {
		return nil, urls.Cause(err)
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusUnauthorized, http.StatusForbidden:
		return nil, fmt.Errorf("it refuses the router's clientId and clientSecret (status %d); correct them", resp.StatusCode)
	default:
		return nil, fmt.Errorf("its introspection endpoint answers %d %s", resp.StatusCode, http.StatusText(resp.StatusCode))
	}
	body, err := readBounded(resp.Body, maxTokenReply)
	if err != nil {
		return nil, err
	}
	claims, err := parseClaims(body)
	if refusal, ok := errors.AsType[*InvalidError](err); ok {
		return nil, errors.New("the answer of its introspection endpoint can't be used: " + refusal.Reason)
	}
	if active := string(claims["active"]); active != "true" && active != "false" {
		return nil, errors.New("the answer of its introspection endpoint does not say whether the token is active")
	}
	return claims, nil
}

// judge returns the token if the issuer's answer makes it valid.
func (n *introspection) judge(claims map[string]json.RawMessage) (*verified, error) {
	if string(claims["active"]) != "true" {
		return nil, invalid("its issuer says that it is not active")
	}
	if raw := claims["iss"]; !isNull(raw) {
		var id string
		if json.Unmarshal(raw, &id) != nil || id != n.issuer.settings.URL {
			return nil, invalid("it is of another issuer than the one that knows it")
		}
	}
	if raw := claims["token_type"]; !isNull(raw) {
		var kind string
		if json.Unmarshal(raw, &kind) != nil || !strings.EqualFold(kind, "Bearer") {
			return nil, invalid("it is no bearer token (token_type)")
		}
	}
	return newVerified(n.issuer, claims, false)
}
