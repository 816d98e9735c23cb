package adapter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"go.uber.org/zap"
	"golang.org/x/net/http/httpguts"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/configpath"
	"github.com/mcp-metarouter/metarouter/internal/login"
	"github.com/mcp-metarouter/metarouter/internal/oauth"
	"github.com/mcp-metarouter/metarouter/internal/profile"
	"github.com/mcp-metarouter/metarouter/internal/reference"
	"github.com/mcp-metarouter/metarouter/internal/signal"
	"github.com/mcp-metarouter/metarouter/internal/vault"
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
func (a *accounts) Logins() *login.Logins { return a.logins }

// BeginLogin begins a login at a server of the configuration; r.Server is set here. The login is for r.By alone if each user has
// one.
func (a *accounts) BeginLogin(ctx context.Context, server string, r login.Request) (*login.Pending, error) {
	var err error
	if r.Server, err = a.supervisor.LoginServer(ctx, server, r.By); err != nil {
		return nil, err
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

// EndLogin ends the login of a user, by name or ID as All of [Logins] has them, at a server, by its name at the login or by its name now. It has
// the issuer revoke the tokens. It is an error if there is no such login.
func (a *accounts) EndLogin(ctx context.Context, server, user string) error {
	all, err := a.logins.All(ctx)
	if err != nil {
		return err
	}
	now, _ := a.supervisor.LoginServer(ctx, server, "") // not of an entry that is gone
	all = slices.DeleteFunc(all, func(h login.Held) bool {
		return h.ID == "" || h.Server != server && !h.At(now) || user != h.User && user != h.ID
	})
	if len(all) == 0 {
		return fmt.Errorf("%q has no login at %s; 'metarouter logins' lists all", user, server)
	}
	if slices.ContainsFunc(all, func(h login.Held) bool { return h.ID != all[0].ID }) {
		return fmt.Errorf("several users of the name %q have a login at %s; name one by the ID that 'metarouter logins' prints", user, server)
	}
	var failed []error
	for _, h := range all {
		failed = append(failed, a.end(ctx, h))
	}
	return errors.Join(failed...)
}

// end ends a login that was listed, whatever the entries are now. The issuer revokes the tokens for the client of an entry with its URL.
func (a *accounts) end(ctx context.Context, h login.Held) error {
	var client oauth.Settings
	for _, entry := range a.current.load().config.Servers {
		if entry.OAuth != nil && (client.ClientID == "" || entry.Name == h.Server) {
			if s, err := a.supervisor.LoginServer(ctx, entry.Name, ""); err == nil && h.At(s) {
				client = s.Settings
			}
		}
	}
	was, err := a.logins.Logout(ctx, oauth.Server{Name: h.Server, URL: h.URL, Principal: h.Principal, Settings: client})
	if err == nil && !was {
		err = fmt.Errorf("%s: the login has ended before", h.Server)
	}
	return err
}

const (
	sweepSoon  = time.Minute      // from the start to the first look for unused logins: a command is over by then
	sweepTime  = time.Hour        // between two looks
	sweepLimit = 10 * time.Minute // of one look: issuers are asked to revoke tokens
)

// endUnused ends logins that their users have not used for loginTimeout, until ctx ends.
func (a *accounts) endUnused(ctx context.Context, log *zap.Logger) {
	for wait := sweepSoon; !signal.Within(ctx.Done(), wait); wait = sweepTime {
		bounded, cancel := context.WithTimeout(ctx, sweepLimit)
		a.sweep(bounded, log, time.Now())
		cancel()
	}
}

// sweep ends the logins that are unused now.
func (a *accounts) sweep(ctx context.Context, log *zap.Logger, now time.Time) {
	limit := a.current.load().config.Router.LoginTimeout
	all, err := a.logins.All(ctx)
	if err != nil {
		log.Warn("can't look for unused logins", zap.Error(err))
	}
	for _, h := range all {
		if h.Principal == "" || limit <= 0 || now.Sub(h.Used) < limit || ctx.Err() != nil {
			continue
		}
		if err := a.end(ctx, h); err != nil {
			log.Warn("an unused login has ended with an error", zap.String("server", h.Server), zap.String("user", h.User), zap.Error(err))
		} else {
			log.Info("a login has ended, since its user has not used it for loginTimeout", zap.String("server", h.Server), zap.String("user", h.User))
		}
	}
}

// LoginState returns how the login at a server of the configuration is. principal is as for Logout.
func (a *accounts) LoginState(ctx context.Context, server, principal string) (login.State, error) {
	s, err := a.supervisor.LoginServer(ctx, server, principal)
	if err != nil {
		return login.State{}, err
	}
	return a.logins.State(ctx, s)
}

// Personal reports whether users have logins, sessions or values of their own.
func (a *accounts) Personal() bool {
	return slices.ContainsFunc(a.current.load().config.Servers, config.Server.Personal)
}

// UserValues returns the names of the values that each user sets, and which of them a principal has set: of servers that their profile
// shows, of all if it is "".
func (a *accounts) UserValues(_ context.Context, principal, of string) (set map[string]bool, err error) {
	v, err := vault.Own()
	if err != nil {
		return nil, err
	}
	names, err := v.Names()
	if err != nil {
		return nil, err
	}
	set = make(map[string]bool)
	c := a.current.load().config
	rules := profile.Of(profile.Existing(c.Router.Profiles, []string{of}), of)
	for _, s := range c.Servers {
		for _, r := range s.References {
			if r.Kind == reference.User && (of == "" || rules.Server(s.Name)) {
				set[r.Body] = slices.Contains(names, vault.UserValue(principal, r.Body))
			}
		}
	}
	return set, nil
}

// SetUserValue sets a value of a principal, and removes it if it is "". The principal's sessions end, since they have the old one.
func (a *accounts) SetUserValue(ctx context.Context, principal, of, name, value string) error {
	set, err := a.UserValues(ctx, principal, of)
	if _, known := set[name]; err != nil || !known {
		return cmp.Or(err, errors.New("no server needs a value of this name"))
	}
	v, err := vault.Own()
	if err != nil {
		return err
	}
	if !httpguts.ValidHeaderFieldValue(value) {
		return errors.New("the value has characters that no header can have, such as the end of a line")
	}
	if value == "" {
		if err = v.Remove(ctx, vault.UserValue(principal, name)); errors.As(err, new(*vault.MissingError)) {
			return nil
		}
	} else {
		err = vault.SetUser(ctx, v, principal, name, value)
	}
	if err == nil {
		a.supervisor.EndUser(principal)
	}
	return err
}

// ownLogins returns the user's store of logins, in memory only if the place of it is not known.
func ownLogins() *login.Store {
	own, err := configpath.Own()
	if err != nil {
		return login.NewStore("")
	}
	return login.NewStore(filepath.Dir(own))
}
