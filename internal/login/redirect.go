package login

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"

	"github.com/mcp-metarouter/metarouter/internal/oauth"
)

// loopbackPath is the path of redirects to this machine.
const loopbackPath = "/callback"

// redirectFor returns where the login comes back, with the client that was registered before, nil
// if no client was. A listener waits there from now on.
func (f *flow) redirectFor(ctx context.Context) (oauth.Redirect, *oauth.Client, error) {
	redirect := oauth.Redirect{DocumentURL: f.logins.documentURL(f.server.Settings)}
	kept, err := f.source.account.client(ctx, f.found.Issuer.ID)
	if err != nil {
		return redirect, nil, err
	}
	switch f.way {
	case Public:
		public := f.logins.publicURL()
		if public == "" {
			return redirect, nil, errors.New("the router has no public URL to which a login could come back; set http.publicUrl")
		}
		redirect.URI = public + CallbackPath
	case Device:
		// It does not come back.
	default:
		if redirect.URI, err = f.listen(kept); err != nil {
			return redirect, nil, err
		}
	}
	return redirect, kept, nil
}

// listen opens the listener of the login, and returns the URI that leads to it. The port of the
// registered client comes first, so that no other registration is needed.
func (f *flow) listen(kept *oauth.Client) (uri string, err error) {
	set := f.server.Settings
	if set.CallbackURL != "" && set.CallbackPort == 0 {
		return "", errors.New("oauth.callbackUrl needs oauth.callbackPort: the port of this machine to which you forward it")
	}
	if port := set.CallbackPort; port != 0 {
		if f.listener, err = listen(port); err != nil {
			return "", fmt.Errorf("the login can't come back, since port %d (oauth.callbackPort) is in use: %w; end the program that listens on it, which may be another login under way, or set another port that the client is registered with", port, err)
		}
		return cmp.Or(set.CallbackURL, loopbackURI("localhost", port)), nil
	}
	if port := portOf(kept); port != 0 {
		if f.listener, err = listen(port); err == nil {
			return kept.RedirectURI, nil
		}
	}
	if f.listener, err = listen(0); err != nil {
		return "", fmt.Errorf("the login can't come back, since no port of this machine is free: %w", err)
	}
	return loopbackURI("127.0.0.1", f.listener.port), nil
}

// loopbackURI returns the redirect to this machine; port 0 leaves it out.
func loopbackURI(host string, port int) string {
	if port != 0 {
		host = net.JoinHostPort(host, strconv.Itoa(port))
	}
	return "http://" + host + loopbackPath
}

// portOf returns the port of this machine that the client was registered with, 0 without one.
func portOf(c *oauth.Client) int {
	if c == nil {
		return 0
	}
	u, err := url.Parse(c.RedirectURI)
	if err != nil || u.Hostname() != "127.0.0.1" {
		return 0
	}
	port, _ := strconv.Atoi(u.Port())
	return port
}
