package adapter

import (
	"context"
	"path/filepath"

	"github.com/mcp-metarouter/metarouter/internal/configpath"
	"github.com/mcp-metarouter/metarouter/internal/login"
	"github.com/mcp-metarouter/metarouter/internal/oauth"
	"github.com/mcp-metarouter/metarouter/supervisor"
)

// accounts are the router's logins at remote servers.
type accounts struct {
	current    *holder
	supervisor *supervisor.Supervisor
	logins     *login.Logins
	notices    loginNotices
}

// Logins returns the logins of the router at remote servers.
func (a *accounts) Logins() *Logins { return a.logins }

// BeginLogin begins a login at a server of the configuration; r.Server is set here. The login is for r.By alone if each user has
// one. The Way is Device if the entry's grant is.
func (a *accounts) BeginLogin(ctx context.Context, server string, r LoginRequest) (*PendingLogin, error) {
	var err error
	if r.Server, err = a.supervisor.LoginServer(ctx, server, r.By); err != nil {
		return nil, err
	}
	if r.Server.Settings.Grant == oauth.DeviceCode {
		r.Way = login.Device
	}
	return a.logins.Begin(ctx, r)
}

// Logout ends the login at a server of the configuration, and reports whether there was one. If each user has a login, principal
// says whose: "" is the local user's.
func (a *accounts) Logout(ctx context.Context, server, principal string) (was bool, err error) {
	s, err := a.supervisor.LoginServer(ctx, server, principal)
	if err != nil {
		return false, err
	}
	return a.logins.Logout(ctx, s)
}

// LoginState returns how the login at a server of the configuration is. principal is as for Logout.
func (a *accounts) LoginState(ctx context.Context, server, principal string) (LoginState, error) {
	s, err := a.supervisor.LoginServer(ctx, server, principal)
	if err != nil {
		return LoginState{}, err
	}
	return a.logins.State(ctx, s)
}

// ownLogins returns the user's store of logins, nil if the place of it is not known.
func ownLogins() *login.Store {
	own, err := configpath.Own()
	if err != nil {
		return nil
	}
	return login.NewStore(filepath.Dir(own))
}
