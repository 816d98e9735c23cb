package supervisor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/login"
	"github.com/mcp-metarouter/metarouter/internal/oauth"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/supervisor/internal/resolve"
	"github.com/mcp-metarouter/metarouter/supervisor/internal/transport"
)

// LoginServer returns the server of the name as logins know it, with the values of its secrets. principal is whose login is meant
// if each has one: "" for the local user.
// The error says why no login helps it: it is no remote server, it does not exist, its entry has
// an Authorization header of its own, or a secret can't be got.
func (v *Supervisor) LoginServer(ctx context.Context, name, principal string) (oauth.Server, error) {
	s, err := v.lookup(ctx, name)
	if err != nil {
		return oauth.Server{}, err
	}
	entry, _ := s.control.configured()
	switch {
	case entry.Misconfigured != "":
		return oauth.Server{}, &status.UnavailableError{Server: name, State: status.Misconfigured, Reason: entry.Misconfigured}
	case entry.Self:
		return oauth.Server{}, &status.UnavailableError{Server: name, State: status.Self}
	case entry.URL == "":
		return oauth.Server{}, fmt.Errorf("server %q runs on this machine, and no login helps it; put its token into \"env\" of its entry", name)
	}
	resolved, err := s.opener.secrets.Resolve(ctx, entry)
	if err != nil {
		return oauth.Server{}, fmt.Errorf("server %q: %w", name, err)
	}
	for _, header := range slices.AppendSeq(slices.Collect(maps.Keys(resolved.Headers)), maps.Keys(entry.Headers)) { // also one for each user
		if http.CanonicalHeaderKey(header) == "Authorization" {
			return oauth.Server{}, fmt.Errorf("server %q has an \"Authorization\" of its own in its headers, which it gets instead of a login; remove that from its entry to log in", name)
		}
	}
	found := loginServer(resolved)
	if entry.PerUser {
		found.Principal = principal
	}
	return found, nil
}

// loginServer returns the server of a resolved entry as logins know it.
func loginServer(resolved config.Server) oauth.Server {
	s := oauth.Server{Name: resolved.Name, URL: resolved.URL}
	if o := resolved.OAuth; o != nil {
		s.Settings = oauth.Settings(*o)
	}
	return s
}

// A source has the tokens of one server's login, as a [*login.Source] does.
type source interface {
	transport.Tokens
	Changed(ctx context.Context) <-chan struct{}
	Login(ctx context.Context) (string, error)
	Permit(ctx context.Context, issuer string) error
}

// sources returns where the tokens of servers come from; nil if logins is.
func sources(logins *login.Logins) func(oauth.Server) source {
	if logins == nil {
		return nil
	}
	return func(s oauth.Server) source { return logins.Source(s) }
}

// tokens are the tokens of one server's login, or those issued in exchange for a user's. They are hidden in texts of the server.
// tokens knows which of them was refused last.
type tokens struct {
	from    transport.Tokens
	login   source // from, unless tokens are exchanged
	secrets *resolve.Server
	noted   func(token string)     // is called with tokens before they are sent; may be nil
	refused atomic.Pointer[string] // the token that was refused last; may be nil
}

// tokensOf returns the tokens of a session with the server of a resolved entry; nil if there are no logins. The opener
// keeps the callbacks of the session from which lists are read for the life of the server.
func (o *opener) tokensOf(ctx context.Context, resolved config.Server, on terms) (transport.Tokens, error) {
	switch {
	case resolved.Exchange != nil && !on.shared && (on.user == nil || on.user.exchange == nil):
		return nil, errEdited // since the session was asked for
	case resolved.Exchange != nil && !on.shared:
		return &tokens{from: on.user.exchange, secrets: o.secretsOf(on), noted: o.options.OnToken}, nil
	case o.sources == nil:
		return nil, nil
	}
	personal := on
	if !resolved.PerUser {
		personal.user = nil
	}
	from, err := o.sourceOf(ctx, loginServer(resolved), personal)
	if err != nil {
		return nil, err
	}
	t := &tokens{from: from, login: from, secrets: o.secretsOf(on), noted: o.options.OnToken}
	if on.user == nil || on.shared {
		o.tokens.Store(t)
	}
	return t, nil
}

// Token implements [transport.Tokens].
func (t *tokens) Token(ctx context.Context) (string, error) {
	token, err := t.from.Token(ctx)
	if token != "" && t.secrets.HideToken(token) && t.noted != nil {
		t.noted(token)
	}
	return token, err
}

// Refused implements [transport.Tokens].
func (t *tokens) Refused(ctx context.Context, token string, resp *http.Response) error {
	err := t.from.Refused(ctx, token, resp)
	if err != nil {
		t.refused.Store(&token)
	}
	return err
}

// tokenTime bounds how long a server that needs a login is asked for a token.
const tokenTime = 10 * time.Second

// hasNew reports whether there is a token that was not refused. t may be nil.
func (t *tokens) hasNew(ctx context.Context) bool {
	if t == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, tokenTime)
	defer cancel()
	token, err := t.Token(ctx)
	refused := t.refused.Load()
	return err == nil && token != "" && (refused == nil || token != *refused)
}

// awaitLogin waits until somebody has logged in to the server, or for another reason to end a wait.
// If only the issuer was not reached, it also waits for a call and for the time after which
// failed servers are tried again. soon says that a token that was not refused yet is used at
// once.
func (c *control) awaitLogin(ctx context.Context, t *tokens, needed *login.NeededError, soon bool) wakeup {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var changed <-chan struct{}
	if t != nil {
		changed = t.login.Changed(ctx)
	}
	if needed.Why == status.IssuerUnreachable {
		return c.await(ctx, time.After(retryFailed), c.woken, changed)
	}
	if soon && t.hasNew(ctx) { // since the server was asked
		return byTime
	}
	return c.await(ctx, nil, c.woken, changed)
}

// loginReason says in plain words why a server needs a login, and how to log in.
func loginReason(entry config.Server, needed *login.NeededError) string {
	if entry.PerUser && needed.Why == status.NeverLoggedIn {
		return "its list of tools needs a login of the router's own user, and calls need each user's own; run: " + needed.Command()
	}
	return needed.Advice()
}

// failed returns the error of a client for which no session with the server can be opened.
func (o *opener) failed(err error) error {
	if needed, ok := errors.AsType[*login.NeededError](err); ok {
		return &status.UnavailableError{Server: o.name, State: status.NeedsAuth, Reason: needed.Error(), Login: needed.Why}
	}
	if _, ok := errors.AsType[*resolve.UserError](err); ok {
		return o.unavailable(status.Misconfigured, err.Error())
	}
	return o.unavailable(status.Failed, err.Error())
}
