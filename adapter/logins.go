package adapter

import (
	"context"
	"path/filepath"

	"github.com/mcp-metarouter/metarouter/internal/configpath"
	"github.com/mcp-metarouter/metarouter/internal/login"
	"github.com/mcp-metarouter/metarouter/internal/oauth"
)

// Logins returns the logins of the router at remote servers.
func (p *Parts) Logins() *Logins { return p.router.logins }

// BeginLogin begins a login at a server of the configuration; r.Server is set here. The Way is Device
// if the entry's grant is.
func (p *Parts) BeginLogin(ctx context.Context, server string, r LoginRequest) (*PendingLogin, error) {
	var err error
	if r.Server, err = p.router.supervisor.LoginServer(ctx, server); err != nil {
		return nil, err
	}
	if r.Server.Settings.Grant == oauth.DeviceCode {
		r.Way = login.Device
	}
	return p.router.logins.Begin(ctx, r)
}

// Logout ends the login at a server of the configuration, and reports whether there was one.
func (p *Parts) Logout(ctx context.Context, server string) (was bool, err error) {
	s, err := p.router.supervisor.LoginServer(ctx, server)
	if err != nil {
		return false, err
	}
	return p.router.logins.Logout(ctx, s)
}

// LoginState returns how the login at a server of the configuration is.
func (p *Parts) LoginState(ctx context.Context, server string) (LoginState, error) {
	s, err := p.router.supervisor.LoginServer(ctx, server)
	if err != nil {
		return LoginState{}, err
	}
	return p.router.logins.State(ctx, s)
}

// ownLogins returns the user's store of logins, nil if the place of it is not known.
func ownLogins() *login.Store {
	own, err := configpath.Own()
	if err != nil {
		return nil
	}
	return login.NewStore(filepath.Dir(own))
}
