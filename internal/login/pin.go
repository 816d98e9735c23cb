package login

import (
	"context"
	"fmt"

	"github.com/mcp-metarouter/metarouter/internal/oauth"
)

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
	return hash(key(s.URL), set.ClientID)
}

// permit returns an error if the client of the settings was used at another issuer. With pin it keeps
// that it is used at this one, from now on.
func (a *account) permit(ctx context.Context, issuer string, pin bool) error {
	key := pinOf(a.server)
	if key == "" {
		return nil
	}
	c, err := a.store.read(ctx, true)
	if err != nil {
		return err
	}
	if kept := c.Pins[key]; kept != "" || !pin {
		return samePin(a.server.Name, kept, issuer)
	}
	if len(issuer) > maxEntry {
		return fmt.Errorf("the name of the issuer is longer than %d KiB, which is too long to keep", maxEntry>>10)
	}
	return a.store.edit(ctx, func(c *content) error {
		if err := samePin(a.server.Name, c.Pins[key], issuer); err != nil {
			return err
		}
		makeRoom(c.Pins, key, maxPins)
		c.Pins[key] = issuer
		return nil
	})
}

// samePin returns an error if the pin that is kept, which may be "", is of another issuer.
func samePin(server, kept, issuer string) error {
	if kept == "" || kept == issuer {
		return nil
	}
	return fmt.Errorf("the server now names the issuer %s instead of %s, and the client of oauth.clientId, which was used at %s, is not shown to another issuer; if the change is right, run: metarouter logout %s; or say where the issuer describes itself with oauth.authServerMetadataUrl",
		issuer, kept, kept, server)
}

// unpin removes the pin of the server and reports whether there was one.
func (a *account) unpin(ctx context.Context) (was bool, err error) {
	pin := pinOf(a.server)
	if pin == "" {
		return false, nil
	}
	err = a.store.edit(ctx, func(c *content) error {
		_, was = c.Pins[pin]
		delete(c.Pins, pin)
		return nil
	})
	return was, err
}
