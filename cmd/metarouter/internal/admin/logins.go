package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/clientauth"
	"github.com/mcp-metarouter/metarouter/internal/login"
	"github.com/mcp-metarouter/metarouter/internal/plain"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/internal/urls"
)

const (
	// loginAge is for how long what is known of a login is shown while its server stays as it is,
	// and loginTime bounds how long it takes to find out.
	loginAge  = 30 * time.Second
	loginTime = time.Second

	// beginTime bounds how long a login takes to begin.
	beginTime = time.Minute
)

// A loginInfo says how the login at a remote server is.
type loginInfo struct {
	LoggedIn bool      `json:"logged_in"`
	Needed   string    `json:"needed,omitempty"` // why a person must log in, as the end of a sentence
	Issuer   string    `json:"issuer,omitempty"`
	Expires  time.Time `json:"expires,omitzero"` // of the token; absent if it is not known
	Renews   bool      `json:"renews,omitempty"` // by itself
}

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
	info  *loginInfo
}

// loginOf returns how the login at a server is; nil if it has none and needs none.
func (a *API) loginOf(s adapter.ServerInfo) *loginInfo {
	if s.Transport == string(config.Stdio) || s.Node() != "" || s.State == status.Disabled || s.State == status.Misconfigured || s.State == status.Self {
		return nil
	}
	now := time.Now()
	kept, _ := a.logins.Load(s.Name)
	if was, ok := kept.(knownLogin); ok && was.state == s.State && was.since.Equal(s.Since) && now.Sub(was.at) < loginAge {
		return was.info
	}
	next := knownLogin{state: s.State, since: s.Since, at: now}
	ctx, cancel := context.WithTimeout(context.Background(), loginTime)
	defer cancel()
	info := loginInfo{}
	if is, err := a.router.LoginState(ctx, s.Name); err == nil && is.LoggedIn {
		info = loginInfo{LoggedIn: true, Issuer: plain.Text(is.Issuer), Expires: is.Expires, Renews: is.Renews}
	}
	if s.State == status.NeedsAuth && s.Fault != nil && s.Fault.Login != "" {
		info.Needed = s.Fault.Login.Text()
	}
	if info != (loginInfo{}) {
		next.info = &info
	}
	a.logins.Store(s.Name, next)
	return next.info
}

// beginLogin answers POST /dashboard/servers/NAME/login.
func (a *API) beginLogin(r *http.Request, name string) (any, error) {
	ctx, cancel := context.WithTimeout(r.Context(), beginTime)
	defer cancel()
	begin := login.Request{By: clientauth.PrincipalOf(r.Context()).Hash, Way: login.Loopback}
	if isAt(r, a.router.Config().Router.HTTP.PublicURL) {
		begin.Way = login.Public
	} else if !isLoopback(r.Host) {
		return nil, &failed{http.StatusConflict, fmt.Errorf("this login comes back to the router's own machine, and your browser seems to be on another one. "+
			"Set \"publicUrl\" in \"metarouter\", \"http\" of the configuration, or run 'metarouter login %s --paste' on the router's machine", name)}
	}
	pending, err := a.router.BeginLogin(ctx, name, begin)
	if err != nil {
		return nil, &failed{http.StatusConflict, errors.New(a.mask.Text(plain.Text(err.Error())))}
	}
	begun := begunLogin{URL: pending.URL}
	if pending.Device != nil {
		begun.URL, begun.Code = pending.Device.URL, pending.Device.UserCode
	}
	return begun, nil
}

// isAt reports whether the browser sent the request to the public URL. Some proxies replace the
// Host, and leave the Origin.
func isAt(r *http.Request, public string) bool {
	u, err := url.Parse(public)
	if err != nil || u.Host == "" {
		return false
	}
	return strings.EqualFold(u.Host, r.Host) || strings.EqualFold(u.Scheme+"://"+u.Host, r.Header.Get("Origin"))
}

// isLoopback reports whether a host, with or without a port, is the machine itself.
func isLoopback(host string) bool {
	u := url.URL{Host: host}
	return urls.IsLoopback(u.Hostname())
}

// logout ends the login at a server.
func (a *API) logout(ctx context.Context, name string) error {
	defer a.logins.Delete(name)
	_, err := a.router.Logout(ctx, name)
	return err
}
