package httpd

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/rate"
	"github.com/mcp-metarouter/metarouter/server/internal/conversation"
)

const (
	// judging bounds how long the [Authenticator] may take for a token.
	judging = 10 * time.Second

	// refusedPerMinute is how many refused tokens of one address are answered with a challenge;
	// more must wait. Good tokens never wait: behind a proxy, all clients have one address.
	refusedPerMinute = 60
)

var (
	// errRevisions is why a token can't be judged: its issuer was edited meanwhile.
	errRevisions = errors.New("the configuration of the issuer changes")

	errNoToken = conversation.InvalidRequest("the request has no valid token: send Authorization: Bearer TOKEN")

	errNoPublicURL = &Refusal{Status: http.StatusUnauthorized, Reason: `the router does not know its own address; an administrator must set "publicUrl" in "metarouter", "http" of the configuration`}
)

// An identifier finds out who sends each request.
type identifier struct {
	authenticator Authenticator // may be nil
	login         *login
	pages         bool          // there are pages
	refusals      *rate.Limiter // of each address, for tokens that the authenticator refuses
	good          recentTokens  // that it has let in
	audited       *audited
	work          *work
	next          http.Handler
}

// ServeHTTP implements [http.Handler]. Who has proved nothing is passed on, too.
func (h *identifier) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := requestOf(r)
	q.quota.limiter = q.rules.limiter
	if g := h.identify(w, r); g != nil {
		q.letIn(g)
		if q.client.proof != nil {
			h.audited.came(r)
		}
	}
	h.next.ServeHTTP(w, r)
}

// identify returns the grant of the client: by a token of the options, by a browser's cookie,
// by the certificate of the client, or by what an issuer has issued. It is nil if the request
// proves none of that; wrong of the client says why, if there was a token.
func (h *identifier) identify(w http.ResponseWriter, r *http.Request) (g *grant) {
	q := requestOf(r)
	c := &q.client
	if who, ok := q.rules.access.identify(r); ok {
		if g = q.rules.grants[who]; g != nil {
			return g
		}
	}
	if h.pages && q.target.isForBrowsers() {
		if c.session, g, c.wrong = h.login.identify(q.rules, r); g != nil || c.wrong != nil { // the browser's issuer can't be asked
			return g
		}
	}
	if g = h.byCertificate(r); g == nil {
		g = h.byToken(w, r)
	}
	return g
}

// letIn notes by which grant the client is let in.
func (q *request) letIn(g *grant) {
	q.client.grant, q.client.principal = g, g.Principal
	q.quota.limiter, q.quota.payer = q.rules.limiterOf(g.Principal), g.Hash
}

// isIn reports whether the client was let in.
func (c client) isIn() bool { return c.grant != nil }

// byCertificate returns the grant of the principal that the client's certificate stands for; nil
// if it stands for none. A client that sends Authorization wants to be known by that.
func (h *identifier) byCertificate(r *http.Request) *grant {
	q := requestOf(r)
	if h.authenticator == nil || r.TLS == nil || len(r.TLS.VerifiedChains) == 0 || r.Header.Get("Authorization") != "" {
		return nil
	}
	leaf := r.TLS.VerifiedChains[0][0]
	hash, ok := h.certified(leaf)
	if !ok {
		return nil
	}
	for who, g := range q.rules.grants {
		if who.Hash == hash {
			q.client.proves = h.certificateProves(leaf, hash)
			return g
		}
	}
	return nil
}

// certified returns the hash of the principal that a certificate stands for now. It was verified
// when the connection began, which may be long ago.
func (h *identifier) certified(leaf *x509.Certificate) (hash string, ok bool) {
	if time.Now().After(leaf.NotAfter) {
		return "", false
	}
	hash, ok = h.authenticator.Certificate(leaf)
	return hash, ok && hash != ""
}

// byToken returns the grant of the principal that an access token of an issuer proves; nil if it
// proves none. q.client.wrong says why not.
func (h *identifier) byToken(w http.ResponseWriter, r *http.Request) *grant {
	q := requestOf(r)
	token := bearerOf(r)
	if token == "" || h.authenticator == nil || len(q.rules.options.Issuers) == 0 {
		return nil
	}
	if q.rules.publicURL == "" {
		q.client.wrong = errNoPublicURL
		return nil
	}
	resource := q.rules.publicURL + q.target.mcpPath()
	proof, g, err := h.judge(r.Context(), q.rules.settings, token, resource)
	responseOf(w).expectBody(r) // the body has as much time as without
	if err != nil {
		if q.client.wrong = err; isRefused(err) && !h.good.has(token) { // the client of a good one that has expired must learn that
			if wait := h.refusals.Take(network(r.RemoteAddr), 1, 1); wait > 0 {
				q.client.wrong = &tooManyRefusals{err, wait}
			}
		}
		return nil
	}
	h.good.add(token)
	q.client.proof, q.client.proves = &proof, h.tokenProves(q.rules.settings, token, resource, proof)
	return g
}

// judge asks the Authenticator what a token proves for a resource, and returns the grant by the
// rules that are in force.
func (h *identifier) judge(ctx context.Context, in *settings, token, resource string) (Proof, *grant, error) {
	ctx, cancel := context.WithTimeout(ctx, judging)
	defer cancel()
	defer context.AfterFunc(h.work.ctx, cancel)()
	for range 2 { // again if the issuer was edited meanwhile
		proof, err := h.authenticator.Token(ctx, token, resource)
		if err != nil {
			return Proof{}, nil, err
		}
		if g, ok := in.current().grantOf(proof); ok {
			return proof, g, nil
		}
	}
	return Proof{}, nil, errRevisions
}

// bearerOf returns the token that the request has, "" if it has none.
func bearerOf(r *http.Request) string {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

// isRefused reports whether err says that an access token is bad.
func isRefused(err error) bool {
	refusal, is := errors.AsType[*Refusal](err)
	return is && refusal.Status != http.StatusForbidden
}

// refuseUnknown answers a request that proves no one.
func refuseUnknown(w http.ResponseWriter, r *http.Request) {
	q := requestOf(r)
	tooMany, throttled := errors.AsType[*tooManyRefusals](q.client.wrong)
	refusal, refused := errors.AsType[*Refusal](q.client.wrong)
	switch {
	case q.client.wrong == nil:
		why := "no token"
		if r.Header.Get("Authorization") != "" {
			why = "unknown token"
		}
		refuseFor(why, w, r, http.StatusUnauthorized, errNoToken)
	case throttled:
		refuseBusy(w, r, http.StatusTooManyRequests, tooMany.wait, "too many access tokens from this address were refused")
	case !refused:
		wait := retryBusy * time.Second
		if q.client.wrong == errRevisions {
			wait = time.Second
		}
		refuseBusy(w, r, http.StatusServiceUnavailable, wait, fmt.Sprintf("the access token can't be verified now: its issuer does not answer, or was just edited; try again in %v", wait))
	case refusal.Status != http.StatusForbidden:
		challenge(w, r, "invalid_token", refusal.Reason, q.scopesToAsk())
		refuseFor(refusal.Reason, w, r, http.StatusUnauthorized, conversation.InvalidRequest("the access token is refused: "+conversation.Brief(refusal.Reason)))
	default:
		if len(refusal.Scopes) > 0 {
			challenge(w, r, "insufficient_scope", refusal.Reason, refusal.Scopes)
		}
		refuseFor(refusal.Reason, w, r, http.StatusForbidden, conversation.InvalidRequest("the access token is valid, but does not let its user in: "+conversation.Brief(refusal.Reason)))
	}
}

// tooManyRefusals is why a token is refused without a challenge.
type tooManyRefusals struct {
	error // why it is refused
	wait  time.Duration
}
