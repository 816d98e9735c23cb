package httpd

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

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

	errNoPublicURL = &Refusal{Status: http.StatusUnauthorized, Reason: `the router does not know its own address; an administrator must set "publicUrl" in "metarouter", "http" of the configuration`}
)

// identify finds out who sends the request: by a token of the options, by a browser's cookie,
// by the certificate of the client, or by what an issuer has issued. It reports false if the
// request proves none of that; x.wrong says why, if there was a token.
func (h *Handler) identify(x *exchange, browser bool) (in bool) {
	x.limiter = x.rules.limiter
	who, ok := x.rules.access.identify(x.r)
	g := x.rules.grants[who]
	if !ok {
		g = nil
	}
	if g == nil && browser {
		if x.stay, x.wrong = h.login.identify(x.rules, x.r); x.wrong != nil { // the browser's issuer can't be asked
			return false
		}
		if x.stay != nil {
			g = x.stay.grant
		}
	}
	if g == nil {
		g = h.byCertificate(x)
	}
	if g == nil {
		g = h.byToken(x)
	}
	if g == nil {
		return false
	}
	x.letIn(g)
	return true
}

// letIn notes by which grant the client is let in.
func (x *exchange) letIn(g *grant) {
	x.grant, x.principal = g, g.Principal
	x.limiter = x.rules.limiterOf(g.Principal)
	x.payer = g.Hash
	if x.proof != nil {
		x.audited.came(x)
	}
}

// byCertificate returns the grant of the principal that the client's certificate stands for; nil
// if it stands for none. A client that sends Authorization wants to be known by that.
func (h *Handler) byCertificate(x *exchange) *grant {
	if h.authenticator == nil || x.r.TLS == nil || len(x.r.TLS.VerifiedChains) == 0 || x.r.Header.Get("Authorization") != "" {
		return nil
	}
	leaf := x.r.TLS.VerifiedChains[0][0]
	hash, ok := h.certified(leaf)
	if !ok {
		return nil
	}
	for who, g := range x.rules.grants {
		if who.Hash == hash {
			x.proves = h.certificateProves(leaf, hash)
			return g
		}
	}
	return nil
}

// certified returns the hash of the principal that a certificate stands for now. It was verified
// when the connection began, which may be long ago.
func (h *Handler) certified(leaf *x509.Certificate) (hash string, ok bool) {
	if time.Now().After(leaf.NotAfter) {
		return "", false
	}
	hash, ok = h.authenticator.Certificate(leaf)
	return hash, ok && hash != ""
}

// byToken returns the grant of the principal that an access token of an issuer proves; nil if it
// proves none. x.wrong says why not.
func (h *Handler) byToken(x *exchange) *grant {
	token := bearerOf(x.r)
	if token == "" || h.authenticator == nil || len(x.rules.options.Issuers) == 0 {
		return nil
	}
	if x.rules.publicURL == "" {
		x.wrong = errNoPublicURL
		return nil
	}
	resource := x.rules.publicURL + x.mcpPath()
	proof, g, err := h.judge(x.context(), token, resource)
	x.begin(time.Now()) // the body has as much time as without
	if err != nil {
		if x.wrong = err; isRefused(err) && !h.good.has(token) { // the client of a good one that has expired must learn that
			if wait := h.refusals.Take(network(x.r.RemoteAddr), 1, 1); wait > 0 {
				x.wrong = &tooManyRefusals{err, wait}
			}
		}
		return nil
	}
	h.good.add(token)
	x.proof, x.proves = &proof, h.tokenProves(token, resource, proof)
	return g
}

// judge asks the Authenticator what a token proves for a resource, and returns the grant by the
// rules that are in force.
func (h *Handler) judge(ctx context.Context, token, resource string) (Proof, *grant, error) {
	ctx, cancel := context.WithTimeout(ctx, judging)
	defer cancel()
	defer context.AfterFunc(h.work.ctx, cancel)()
	for range 2 { // again if the issuer was edited meanwhile
		proof, err := h.authenticator.Token(ctx, token, resource)
		if err != nil {
			return Proof{}, nil, err
		}
		if g, ok := h.current().grantOf(proof); ok {
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
func (x *exchange) refuseUnknown() {
	tooMany, throttled := errors.AsType[*tooManyRefusals](x.wrong)
	refusal, refused := errors.AsType[*Refusal](x.wrong)
	switch {
	case x.wrong == nil:
		if x.why = "no token"; x.r.Header.Get("Authorization") != "" {
			x.why = "unknown token"
		}
		x.refuse(http.StatusUnauthorized, nil, errNoToken)
	case throttled:
		x.retryAfter(tooMany.wait)
		x.refuse(http.StatusTooManyRequests, nil, busy("too many access tokens from this address were refused"))
	case !refused:
		wait := retryBusy * time.Second
		if x.wrong == errRevisions {
			wait = time.Second
		}
		x.retryAfter(wait)
		x.refuse(http.StatusServiceUnavailable, nil, busy(fmt.Sprintf("the access token can't be verified now: its issuer does not answer, or was just edited; try again in %v", wait)))
	case refusal.Status != http.StatusForbidden:
		x.why = refusal.Reason
		x.challenge("invalid_token", refusal.Reason, x.scopesToAsk())
		x.refuse(http.StatusUnauthorized, nil, conversation.InvalidRequest("the access token is refused: "+conversation.Brief(refusal.Reason)))
	default:
		x.why = refusal.Reason
		if len(refusal.Scopes) > 0 {
			x.challenge("insufficient_scope", refusal.Reason, refusal.Scopes)
		}
		x.refuse(http.StatusForbidden, nil, conversation.InvalidRequest("the access token is valid, but does not let its user in: "+conversation.Brief(refusal.Reason)))
	}
}

// tooManyRefusals is why a token is refused without a challenge.
type tooManyRefusals struct {
	error // why it is refused
	wait  time.Duration
}
