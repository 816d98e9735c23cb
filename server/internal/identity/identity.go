// Package identity finds out who sends an HTTP request: by a token or a certificate of the options, by
// an access token of an issuer, or by the cookie of a browser that has logged in on the login page.
//
// [Rules] follow from the options, and hold the right of each principal as a [Grant], which ends when an
// edit takes the right away. An [Identifier] fills a [Sender] for each request. The package writes the pages
// of logins; a refusal is a [Denial], which the caller writes.
package identity

import (
	"context"
	"net/http"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/internal/audit"
	"github.com/mcp-metarouter/metarouter/internal/clientauth"
	"github.com/mcp-metarouter/metarouter/internal/rate"
)

// anyone is the principal of all clients if requests need no token.
var anyone = clientauth.Principal{Admin: true}

// Logins take the redirects that come back from logins at remote servers, as internal/login does.
type Logins interface {
	// Callback completes the login that the query of a redirect belongs to, for a browser with the
	// session of the principal by. The error is for a person.
	Callback(ctx context.Context, by, query string) (server string, err error)

	// Document returns the client ID metadata document (JSON), which may be nil.
	Document() []byte
}

// Accounts are what users of the router have of their own.
type Accounts interface {
	// Personal reports whether users have anything of their own. Then users who are no administrators may log in, too, and get
	// nothing but their account.
	Personal() bool

	// UserValues returns the names of the values that each user of the profile sets, and which of them the principal has set. The
	// profile is as of [clientauth.Principal].
	UserValues(ctx context.Context, principal, profile string) (set map[string]bool, err error)

	// SetUserValue sets such a value, and removes it if it is "". The error is for a person.
	SetUserValue(ctx context.Context, principal, profile, name, value string) error
}

// Options are the parts that an [Identifier] works with.
type Options struct {
	Port     string   // that the router listens on, for the names of cookies
	Pages    bool     // there are pages for browsers, which may log in
	Logins   Logins   // may be nil
	Accounts Accounts // may be nil
	Audit    audit.Recorder
	Log      *zap.Logger
}

// common is shared by all parts of an Identifier.
type common struct {
	Options
	ctx   context.Context // ends with the handler
	trail *trail
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
	login    *login
}

// New returns an Identifier that works until ctx ends. [Identifier.Close] must be called then.
func New(ctx context.Context, o Options) *Identifier {
	m := &common{o, ctx, newTrail(o.Audit)}
	return &Identifier{common: m, refusals: rate.PerMinute(refusedPerMinute), login: &login{
		common: m, tries: rate.PerMinute(triesPerMinute), begins: rate.PerMinute(beginsPerMinute), foreign: http.NewCrossOriginProtection(),
		signIns: signIns{byState: make(map[string]*signIn)}, sessions: browserSessions{common: m, byID: make(map[string]*browserSession)},
	}}
}

// Close completes the audit log. No request may be served any more.
func (i *Identifier) Close() { i.trail.count() }
