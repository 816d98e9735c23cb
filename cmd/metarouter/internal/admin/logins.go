package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/audit"
	"github.com/mcp-metarouter/metarouter/internal/clientauth"
	"github.com/mcp-metarouter/metarouter/internal/commandline"
	"github.com/mcp-metarouter/metarouter/internal/login"
	"github.com/mcp-metarouter/metarouter/internal/plain"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/internal/urls"
)

const (
	// loginAge is for how long a known login is shown while its server stays as it is.
	loginAge = 30 * time.Second

	// loginTime and loginDetailsTime are how long the keyring, which may ask the person, has to answer
	// for a page and for a command.
	loginTime        = time.Second
	loginDetailsTime = 10 * time.Second

	// beginTime bounds how long a login takes to begin.
	beginTime = time.Minute
)

// POST /dashboard/servers/NAME/login with the body {} begins a login, which all clients share.
type begunLogin struct {
	URL  string `json:"url"`            // where the person logs in
	Code string `json:"code,omitempty"` // that the person enters there
}

// A knownLogin is the login at a server in a certain state. It is kept: to find out may take time.
type knownLogin struct {
	state status.State
	since time.Time
	at    time.Time
	info  *LoginDetails
}

// loginOf returns how the login at a server is; nil if it has no login and needs none.
func (a *API) loginOf(s status.Server) *LoginDetails {
	now := time.Now()
	kept, _ := a.logins.Load(s.Name)
	if was, ok := kept.(knownLogin); ok && was.state == s.State && was.since.Equal(s.Since) && now.Sub(was.at) < loginAge {
		return was.info
	}
	next := knownLogin{s.State, s.Since, now, a.loginDetails(context.Background(), s, loginTime)}
	a.logins.Store(s.Name, next)
	return next.info
}

// loginDetails returns how the login at a server is, as far as the keyring says so within a time; nil if
// there is nothing to say.
func (a *API) loginDetails(ctx context.Context, s status.Server, within time.Duration) *LoginDetails {
	off := s.State == status.Disabled || s.State == status.Misconfigured || s.State == status.Self
	if off || s.Transport == string(config.Stdio) || s.Node() != "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	state, err := a.router.LoginState(ctx, s.Name, clientauth.PrincipalOf(ctx).Hash)
	if err != nil { // such as an entry with a header of its own
		state = login.State{}
	}
	if s.Fault != nil && s.State == status.NeedsAuth {
		state.Why = cmp.Or(s.Fault.Login, state.Why)
		state.Issuer = cmp.Or(state.Issuer, s.Fault.Issuer)
	}
	if !state.LoggedIn && state.Why == "" {
		return nil
	}
	details := &LoginDetails{LoggedIn: state.LoggedIn, Issuer: plain.Text(state.Issuer), Scopes: state.Scopes, Expires: state.Expires, Renews: state.Renews}
	if state.Why != "" {
		details.Needed = state.Why.Text()
	}
	return details
}

func beginLogin(ctx context.Context, q *query, name string) (any, error) {
	ctx, cancel := context.WithTimeout(ctx, beginTime)
	defer cancel()
	who := clientauth.PrincipalOf(ctx)
	begin := login.Request{By: who.Hash, Who: who.Name, Way: login.Loopback}
	public := q.router.Config().Router.HTTP.PublicURL
	if !isLocal(q.Request, public) {
		if begin.Way = login.Public; public == "" {
			return nil, &statusError{http.StatusConflict, fmt.Errorf("this login comes back to the router's own machine, and your browser seems to be on another one. "+
				"Set \"publicUrl\" in \"metarouter\", \"http\" of the configuration, or run 'metarouter login %s --paste' on the router's machine", commandline.Quote(name))}
		}
	}
	pending, err := q.router.BeginLogin(ctx, name, begin)
	if err != nil {
		return nil, &statusError{http.StatusConflict, errors.New(q.mask.Text(plain.Text(err.Error())))}
	}
	begun := begunLogin{URL: pending.URL}
	if pending.Device != nil {
		begun.URL, begun.Code = pending.Device.URL, pending.Device.UserCode
	}
	return begun, nil
}

// isLocal reports whether the browser has opened the page under a name of this machine that is not the public URL's,
// as a container's port has. Some proxies replace the Host, and leave the Origin. Both only choose between two
// callbacks of the router, and are a part of none.
func isLocal(r *http.Request, public string) bool {
	u, err := url.Parse(cmp.Or(r.Header.Get("Origin"), "http://"+r.Host))
	return err == nil && urls.IsLoopback(u.Hostname()) && (public == "" || urls.LeadsElsewhere(public))
}

// GET /dashboard/logins answers with all logins at remote servers. POST /dashboard/logins/SERVER/ID/end with the body {} ends one of
// a user.
func listLogins(q *query) (any, error) {
	ctx, cancel := context.WithTimeout(q.Context(), loginDetailsTime)
	defer cancel()
	all, err := q.router.Logins().All(ctx)
	return map[string][]login.Held{"logins": all}, err
}

func endLogin(q *query) (any, error) {
	ctx, cancel := context.WithTimeout(audit.By(q.Context(), actor(q.Request)), beginTime)
	defer cancel()
	if err := q.router.EndLogin(ctx, q.PathValue("server"), q.PathValue("user")); err != nil {
		return nil, &statusError{http.StatusConflict, errors.New(q.mask.Text(plain.Text(err.Error())))}
	}
	return listLogins(q)
}
