package identity

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/clientauth"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/signal"
)

const (
	// judging bounds how long the [clientauth.Authenticator] may take for a token.
	judging = 10 * time.Second

	// refusedPerMinute is how many made-up tokens of one address are answered with a challenge;
	// more must wait. Tokens of an issuer never wait: behind a proxy, all clients have one address.
	refusedPerMinute = 60

	// retryIssuer is after which time a client shall try again if its issuer can't be asked.
	retryIssuer = 5 * time.Second

	// proofLasts is after which time a stream's client must prove again who it is, by the token that its
	// request has.
	proofLasts = time.Minute
)

// Identify finds out who sends the request: by a token of the options, by a browser's cookie, by the
// certificate of the client, or by a token of an issuer. If the request proves no identity,
// [Sender.Unknown] says why. Identify reports whether it has asked an issuer, which may take a while.
func (i *Identifier) Identify(r *http.Request, c *Sender) (asked bool) {
	g := c.Rules.grant(r)
	if g == nil && i.Pages && c.Browser {
		if c.session = i.login.bySession(r, c.Rules); c.session != nil {
			g = c.session.grant
		}
	}
	if g == nil {
		g = byCertificate(r, c)
	}
	if g == nil {
		g, asked = i.byToken(r, c)
	}
	if g == nil {
		return asked
	}
	c.Grant, c.Principal = g, g.Principal
	if c.proof != nil {
		i.trail.came(r, g.Principal)
	}
	return asked
}

// byCertificate returns the grant of the principal that the client's certificate stands for; nil
// if it stands for no principal. A client that sends Authorization wants to be known by that. The listener verifies the certificate
// again at each request, and ends those of one that is not valid any more.
func byCertificate(r *http.Request, c *Sender) *Grant {
	if c.Rules.judge == nil || r.TLS == nil || len(r.TLS.VerifiedChains) == 0 || r.Header.Get("Authorization") != "" {
		return nil
	}
	hash, ok := c.Rules.judge.Certificate(r.TLS.VerifiedChains[0][0])
	for who, g := range c.Rules.grants {
		if ok && hash != "" && who.Hash == hash {
			return g
		}
	}
	return nil
}

// byToken returns the grant of the principal that an access token of an issuer proves; nil if it
// proves no principal. c.wrong says why not.
func (i *Identifier) byToken(r *http.Request, c *Sender) (g *Grant, asked bool) {
	token := bearerOf(r)
	if token == "" || c.Rules.judge == nil || !c.Rules.HasIssuers() {
		return nil, false
	}
	resource := c.Rules.PublicURL + c.Resource
	prove := func(ctx context.Context) (clientauth.Proof, *Grant, error) {
		ctx, cancel := i.bounded(ctx, judging)
		defer cancel()
		return c.Rules.prove(clientauth.From(ctx, clientauth.Network(r.RemoteAddr)), token, resource)
	}
	proof, g, err := prove(r.Context())
	if err != nil {
		c.wrong = err
		if refusal := refusalOf(err); refusal != nil && !refusal.Genuine { // the client of one that has expired must learn that
			c.wait = i.refusals.Take(clientauth.Network(r.RemoteAddr), 1, 1)
		}
		return nil, true
	}
	of := c.Rules.issuers[proof.Issuer]
	c.proof, c.subject = &proof, session.Subject{
		Principal: g.Hash, Token: token, Issuer: of.URL, ClientID: of.ClientID, ClientSecret: of.ClientSecret,
		Proves: stillProves(g, prove, proof),
	}
	return g, true
}

// bearerOf returns the token that the request has, which may be "".
func bearerOf(r *http.Request) string {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

// refusalOf returns why an access token is bad; nil if it is not, or can't be judged.
func refusalOf(err error) *clientauth.Refusal {
	if refusal, is := errors.AsType[*clientauth.Refusal](err); is && refusal.Status != http.StatusForbidden {
		return refusal
	}
	return nil
}

// stillProves returns a function that reports whether an access token still proves the
// principal. While the issuer can't be asked, it does until it expires, but not beyond the grant. Several goroutines may call the function.
func stillProves(g *Grant, prove func(context.Context) (clientauth.Proof, *Grant, error), proof clientauth.Proof) func(context.Context) bool {
	var mu sync.Mutex // guards proof.Expires
	return func(ctx context.Context) bool {
		if g.Context.Err() != nil { // it would be judged by the rules before an edit
			return false
		}
		now, _, err := prove(ctx)
		mu.Lock()
		defer mu.Unlock()
		if err == nil {
			proof.Expires = now.Expires
			return now.Principal == proof.Principal && now.Issuer == proof.Issuer
		}
		_, refused := errors.AsType[*clientauth.Refusal](err)
		return !refused && time.Now().Before(proof.Expires)
	}
}

// Lasting returns a context that ends when the client may not be served any more,
// as when its token expires or its user was removed. Only streams that last need it: a
// call is not cut. stop must be called.
func (c *Sender) Lasting(ctx context.Context) (_ context.Context, stop func()) {
	if c.subject.Proves == nil {
		return ctx, func() {}
	}
	return signal.While(ctx, proofLasts, c.subject.Proves, ErrRevoked)
}

// Browse answers requests that only browsers send: logins, here and at remote servers. html says that the browser names
// HTML in Accept. Browse reports false if the request is to be served otherwise. It may not have served a
// request that it denies.
func (i *Identifier) Browse(w http.ResponseWriter, r *http.Request, c *Sender, html bool) (served bool, d *Denial) {
	switch {
	case !c.IsIn() && c.wrong != nil && refusalOf(c.wrong) == nil: // a login would not help
		return false, c.Unknown(r)
	case IsCallback(r.URL.Path):
		return true, i.login.callback(w, r, c)
	case !i.Pages || !c.Browser:
		return false, nil
	}
	return i.login.serve(w, r, c, html)
}
