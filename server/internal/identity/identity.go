// Package identity finds out who sends an HTTP request: by a token or a certificate of the options, by
// an access token of an issuer, or by the cookie of a browser that has logged in on the login page.
//
// [Rules] follow from the options, and hold the right of each principal as a [Grant], which ends when an
// edit takes the right away. An [Identifier] fills a [Client] for each request. The package writes the pages
// of logins; a refusal is a [Denial], which the caller writes.
package identity

import (
	"context"
	"crypto/x509"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/internal/audit"
	"github.com/mcp-metarouter/metarouter/internal/rate"
)

// A Principal is who a client has proved to be. The zero value has proved nothing.
type Principal struct {
	Hash    string // SHA-256 of its token, 64 hex digits in lower case; "" if requests need no token
	Name    string // in logs; "" without a token
	Profile string // of its token, or a union of profiles ("dev|ops"); "" if it has none
	Reads   bool   // it may use only what just reads
	Admin   bool   // it may use the pages' actions, and see the calls of others
}

// anyone is the principal of all clients if requests need no token.
var anyone = Principal{Admin: true}

// An Issuer is an identity provider whose access tokens let clients in.
type Issuer struct {
	URL string

	// Read, Call and Admin are the scopes that stand for reading, for calls and for
	// administration, as the issuer names them.
	Read, Call, Admin []string

	// Revision changes with all that the configuration says of the issuer: what its tokens were
	// let in for under another one ends.
	Revision string

	// For logins of people on the page.
	ClientID     string   // of the router at the issuer; "" offers no login there
	ClientSecret string   // of ClientID; "" for a public client
	Audience     string   // that its tokens must name; "" is the resource
	Admins       []string // what users must be to have the role admin ("groups=ops"); one is enough
}

// An Authenticator knows principals by more than the tokens of the options. Its methods may be
// called by many goroutines at once.
type Authenticator interface {
	// Token returns what an access token proves for a resource, the public URL of an MCP path.
	// The error is a [*Refusal] if the token is bad. Any other error says that nobody knows now.
	Token(ctx context.Context, token, resource string) (Proof, error)

	// Certificate returns the Hash of the principal of the options that a client certificate
	// stands for. It was verified. ok is false if it stands for none.
	Certificate(leaf *x509.Certificate) (hash string, ok bool)
}

// A Proof is what an access token proves.
type Proof struct {
	Principal Principal
	Issuer    string    // its URL
	Revision  string    // that of the Issuer by which the token was judged
	Scopes    []string  // of the token, as the issuer names them
	Expires   time.Time // of the token
}

// A Refusal is why an access token does not let its client in.
type Refusal struct {
	Status int      // 401 if the token is bad, 403 if it is good but not enough
	Scopes []string // that the client needs as well, if that is why; as the issuer names them
	Reason string   // for the client and for logs; never has the token
	Name   string   // of the token's user, for the audit log; "" if the token is bad or names no user
}

func (e *Refusal) Error() string { return e.Reason }

// Logins take what comes back from logins at remote servers, as those of internal/login do.
type Logins interface {
	// Callback completes the login that the query of a redirect belongs to, for a browser with the
	// session of the principal by. The error says what a person reads.
	Callback(ctx context.Context, by, query string) (server string, err error)

	// Document returns the client ID metadata document (JSON), or nil if there is none.
	Document() []byte
}

// Options are what an [Identifier] works with.
type Options struct {
	Port          string        // that the router listens on, for the names of cookies
	Pages         bool          // there are pages for browsers, which may log in
	Authenticator Authenticator // nil for none
	Logins        Logins        // nil for none
	Audit         audit.Recorder
	Log           *zap.Logger
}

// common is what all parts of an Identifier have.
type common struct {
	Options
	ctx     context.Context // ends with the handler
	running *sync.WaitGroup // goroutines that outlive their request
	trail   *trail
}

// bounded returns a context for requests to issuers, which ends with the handler.
func (m *common) bounded(ctx context.Context, most time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, most)
	stop := context.AfterFunc(m.ctx, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}

// An Identifier finds out who sends each request, and logs browsers in and out. Its methods may be called
// by many goroutines at once.
type Identifier struct {
	*common
	refusals *rate.Limiter // of each address, for tokens that the authenticator refuses
	good     recentTokens  // that it has let in
	login    *login
}

// New returns an Identifier that works until ctx ends. [Identifier.Wait] must be called then.
func New(ctx context.Context, o Options) *Identifier {
	running := new(sync.WaitGroup)
	m := &common{o, ctx, running, newTrail(ctx, o.Audit, running)}
	return &Identifier{common: m, refusals: perMinute(refusedPerMinute), good: newRecentTokens(), login: newLogin(m)}
}

// Wait waits for all goroutines, which end soon after the context of [New]. No request may be served
// any more.
func (i *Identifier) Wait() { i.running.Wait() }
