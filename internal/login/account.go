package login

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/internal/commandline"
	"github.com/mcp-metarouter/metarouter/internal/oauth"
	"github.com/mcp-metarouter/metarouter/internal/signal"
	"github.com/mcp-metarouter/metarouter/internal/status"
)

// An account is the login at one server, as the store has it, and the reason why a person must log
// in again.
type account struct {
	server oauth.Server
	store  *Store
	key    string // of the login in the store
	log    *zap.Logger

	mu     sync.Mutex // guards the fields below
	seen   string     // the token that was read last, as mark identifies it
	reason status.LoginReason
	steps  map[string][]string // logins, or tokens of a machine, that did not suffice, by the scopes
}

// read returns the login in the store, nil if the server has no login.
func (a *account) read(ctx context.Context, fresh bool) (*storedLogin, error) {
	l, err := a.store.login(ctx, a.key, fresh)
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if now := mark(l); now != a.seen { // there is another token
		a.seen, a.reason = now, ""
	}
	if l != nil && l.Token.Access == "" {
		a.reason = ended(l)
	}
	return l, nil
}

const (
	// lookTime is the time between two looks at the file while a caller waits for a login.
	lookTime = time.Second
	// readTime bounds reading the file then: its key may be in a keyring that asks its user.
	readTime = 30 * time.Second
)

// awaitOther waits until there is another token than the seen one, as mark identifies it. It reports
// false if ctx ends first.
func (a *account) awaitOther(ctx context.Context, seen string) bool {
	look := time.NewTicker(lookTime)
	defer look.Stop()
	for {
		written := a.store.wrote.Next()
		bounded, cancel := context.WithTimeout(ctx, readTime)
		l, err := a.store.login(bounded, a.key, false)
		cancel()
		if err == nil && mark(l) != seen { // a file that can't be read may be readable later
			return true
		}
		select {
		case <-look.C:
		case <-written:
		case <-ctx.Done():
			return false
		}
	}
}

// note keeps the reason why a login is needed, after the token of l.
func (a *account) note(why status.LoginReason, l *storedLogin) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.reason, a.seen = why, mark(l)
}

// needed keeps the reason as note does, and returns the error for it.
func (a *account) needed(why status.LoginReason, l *storedLogin, err error) *NeededError {
	a.note(why, l)
	return &NeededError{Server: a.server.Name, Why: why, Issuer: l.Found.Issuer.ID, Err: err}
}

// state returns the token that was read last, as mark identifies it, and the reason why a login is
// needed, as far as is known; "" if it is not.
func (a *account) state() (seen string, why status.LoginReason) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.seen, a.reason
}

// ended returns why a login without a valid token has ended.
func ended(l *storedLogin) status.LoginReason { return cmp.Or(l.Ended, status.LoginExpired) }

// mark identifies the token of a login.
func mark(l *storedLogin) string {
	if l == nil {
		return ""
	}
	return l.ID + " " + l.Generation
}

// saved returns the login in the store, nil if the server has no login or the login has ended.
func (a *account) saved(ctx context.Context) (*storedLogin, error) {
	l, err := a.read(ctx, false)
	if err != nil || l == nil || l.Token.Access == "" {
		return nil, err
	}
	return l, nil
}

// save replaces the login in the store, under the lock of refreshes and without a secret that the settings have: it has one
// place. Changed fires, and no login is needed any more.
func (a *account) save(ctx context.Context, l storedLogin) error {
	if c := &l.Client; !c.Registered && c.ID == a.server.Settings.ClientID {
		c.Secret = ""
	}
	l.ID, l.Generation = rand.Text(), rand.Text()
	l.Server, l.URL, l.Principal, l.Used = a.server.Name, bare(a.server.URL), a.server.Principal, wall()
	if err := bounded(l); err != nil {
		return err
	}
	err := a.store.replace(ctx, a.key, func(c *content) error {
		if _, ok := c.Logins[a.key]; !ok && len(c.Logins) >= maxLogins {
			return fmt.Errorf("there are %d logins already, and no more fit; log out from some servers", maxLogins)
		}
		c.Logins[a.key] = l
		return nil
	})
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.reason = ""
	return nil
}

// forget removes the login from the store, under the lock of refreshes, and returns it; nil if the
// server had no login. Changed fires.
func (a *account) forget(ctx context.Context) (*storedLogin, error) {
	var l storedLogin
	err := a.store.replace(ctx, a.key, func(c *content) error {
		l = c.Logins[a.key]
		delete(c.Logins, a.key)
		return nil
	})
	if err != nil || l.Token.Access == "" && l.Token.Refresh == "" {
		return nil, err
	}
	l.Client = withSecret(a.server, l.Client)
	return &l, nil
}

// withSecret returns the client with the secret that save has left out.
func withSecret(s oauth.Server, c oauth.Client) oauth.Client {
	if !c.Registered && c.ID == s.Settings.ClientID && c.Secret == "" {
		c.Secret = s.Settings.ClientSecret
	}
	return c
}

// client returns the client that was registered with the issuer for servers of this origin, nil if
// no client was. Servers of other origins have clients of their own: an issuer may remember that a
// person consented to a client, and must ask again before another server gets a token.
func (a *account) client(ctx context.Context, issuer string) (*oauth.Client, error) {
	c, err := a.store.read(ctx, false)
	if err == nil {
		if found, ok := c.Clients[clientKey(issuer, a.server)]; ok {
			return &found, nil
		}
	}
	return nil, err
}

// clientKey returns the name of the client in the content.
func clientKey(issuer string, s oauth.Server) string { return hash(issuer, oauth.Origin(s.URL), owner) }

// keepClient keeps the client that was registered with the issuer.
func (a *account) keepClient(ctx context.Context, issuer string, client oauth.Client) error {
	if err := bounded(client); err != nil {
		return err
	}
	return a.store.edit(ctx, func(c *content) error {
		key := clientKey(issuer, a.server)
		makeRoom(c.Clients, key, maxClients) // the client can be registered again
		c.Clients[key] = client
		return nil
	})
}

// dropClient has the next login register the client again.
func (a *account) dropClient(ctx context.Context, issuer string) {
	err := a.store.edit(ctx, func(c *content) error {
		delete(c.Clients, clientKey(issuer, a.server))
		return nil
	})
	if err != nil {
		a.log.Warn("the registration at an issuer can't be removed", zap.Error(err))
	}
}

// refusesClient reports whether the error of an issuer says that it does not know the client.
func refusesClient(err error) bool {
	refusal, ok := errors.AsType[*oauth.Refusal](err)
	return ok && (refusal.Code == "invalid_client" || refusal.Code == "unauthorized_client")
}

// change changes the login if its token is still the token of l. It tries for a while, even if the
// router ends: the issuer does not repeat its answers. The lock of the login must be held.
func (a *account) change(ctx context.Context, l *storedLogin, change func(*storedLogin)) (*storedLogin, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTime)
	defer cancel()
	for {
		now, err := a.store.swap(ctx, a.key, l.Generation, change)
		if err == nil {
			return a.usable(now)
		}
		if signal.Within(ctx.Done(), 500*time.Millisecond) {
			return nil, fmt.Errorf("keep the refreshed login: %w", err)
		}
	}
}

// usable returns the login, which may be nil, if it has a token or can get one.
func (a *account) usable(l *storedLogin) (*storedLogin, error) {
	switch {
	case l == nil:
		a.note(status.NeverLoggedIn, nil)
		return nil, &NeededError{Server: a.server.Name, Why: status.NeverLoggedIn}
	case l.Token.Access == "" || ageOf(l.Token, wall()) == tooOld && l.Token.Refresh == "":
		return nil, a.needed(ended(l), l, nil)
	}
	return l, nil
}

// maxPins is the number of pins in a store.
const maxPins = 1000

// A pin is the issuer at which the client of a server's settings was used first. Such a client
// belongs to one issuer, but it is the server that names the issuer: it must not get the
// client's secret shown to another one later.

// pinOf returns the key of the server's pin, "" if it needs no pin: there is no client in the
// settings, they say where its issuer describes itself, or the client proves who it is with
// a key, which leaves us never.
func pinOf(s oauth.Server) string {
	set := s.Settings
	if set.ClientID == "" || set.AuthServerMetadataURL != "" || set.PrivateKey != "" {
		return ""
	}
	s.Principal = "" // it is one client for all principals
	return hash(key(s), set.ClientID)
}

// permit returns an error if the client of the settings was used at another issuer. With pin it keeps
// that it is used at this one, from now on.
func (a *account) permit(ctx context.Context, issuer string, pin bool) error {
	key := pinOf(a.server)
	if key == "" {
		return nil
	}
	check := func(c *content) error {
		kept := c.Pins[key]
		if kept == "" || kept == issuer {
			return nil
		}
		return fmt.Errorf("the server now names the issuer %s instead of %s, and the client of oauth.clientId, which was used at %s, is not shown to another issuer; if the change is right, run: metarouter logout %s; or say where the issuer describes itself with oauth.authServerMetadataUrl",
			issuer, kept, kept, commandline.Quote(a.server.Name))
	}
	c, err := a.store.read(ctx, true)
	if err != nil {
		return err
	}
	if !pin || c.Pins[key] != "" {
		return check(c)
	}
	return a.store.edit(ctx, func(c *content) error {
		if err := check(c); err != nil {
			return err
		}
		makeRoom(c.Pins, key, maxPins)
		c.Pins[key] = issuer
		return nil
	})
}

// unpin removes the pin of the server and reports whether there was one. Only the local user may: the pin is for all
// principals.
func (a *account) unpin(ctx context.Context) (was bool, err error) {
	pin := pinOf(a.server)
	if pin == "" || a.server.Principal != "" {
		return false, nil
	}
	err = a.store.edit(ctx, func(c *content) error {
		_, was = c.Pins[pin]
		delete(c.Pins, pin)
		return nil
	})
	return was, err
}
