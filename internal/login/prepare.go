package login

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/oauth"
)

// probeTime bounds a request that the server is expected to refuse.
const probeTime = 15 * time.Second

// prepare gets all that the login needs: the issuer, the client, the place to come back to, and where the person logs in.
func (p *Pending) prepare(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, beginTime)
	defer cancel()
	server := p.request.Server
	p.source = p.logins.Source(server)
	found, challenge, err := discover(ctx, p.source)
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = fmt.Errorf("the server, or an issuer that it names, does not answer; is the network up? (%w)", e.Err)
	}
	if err != nil {
		return fmt.Errorf("who issues its tokens can't be found: %w", err)
	}
	p.found = *found
	saved, err := p.source.saved(ctx)
	if err != nil {
		return err
	}
	if err := p.source.permit(ctx, found.Issuer.ID, false); err != nil {
		return err
	}
	if p.scopes, err = p.toAsk(challenge, saved); err != nil {
		return err
	}
	id, err := p.identify(ctx)
	if err != nil {
		return err
	}
	p.grantor = grantor(p.source.http, server.Settings, p.found, id)
	p.Expires = time.Now().Add(p.logins.lifetime)
	if p.request.Way != Device {
		if p.URL = p.grantor.AuthorizationURL(p.state, p.verifier, p.redirect, p.scopes); p.URL == "" {
			return errors.New("the issuer names a login page that is no web address")
		}
		return nil
	}
	if err := p.source.permit(ctx, found.Issuer.ID, true); err != nil {
		return err
	}
	if p.Device, err = p.grantor.StartDevice(ctx, p.scopes); err != nil {
		p.discardClient(ctx, err)
		return fmt.Errorf("the login at %s failed: %w", found.Issuer.ID, err)
	}
	p.URL = cmp.Or(p.Device.CompleteURL, p.Device.URL)
	if p.Device.Expires.Before(p.Expires) {
		p.Expires = p.Device.Expires
	}
	return nil
}

// identify returns who the router is for the issuer: a client that fits the place to which the login comes back.
func (p *Pending) identify(ctx context.Context) (oauth.Client, error) {
	issuer := p.found.Issuer
	if p.request.Way == Device && issuer.DeviceEndpoint == "" {
		return oauth.Client{}, fmt.Errorf("its issuer %s has no logins by device code; log in without", issuer.ID)
	}
	kept, err := p.source.client(ctx, issuer.ID)
	if err != nil {
		return oauth.Client{}, err
	}
	if err := p.comeBack(kept); err != nil {
		return oauth.Client{}, err
	}
	redirect := oauth.Redirect{URI: p.redirect, DocumentURL: documentURL(p.logins.publicURL(), p.request.Server.Settings)}
	id, err := oauth.Identify(ctx, p.source.http, p.request.Server, issuer, redirect, kept)
	if err != nil {
		return oauth.Client{}, err
	}
	p.reused = id.Registered && kept != nil && *kept == id
	if id.Registered && !p.reused {
		if err := p.source.keepClient(ctx, issuer.ID, id); err != nil {
			return oauth.Client{}, fmt.Errorf("the registration at %s can't be stored: %w", issuer.ID, err)
		}
	}
	return id, nil
}

// grantor returns the client of the issuer that asks for tokens for the server.
func grantor(c *http.Client, s oauth.Settings, f oauth.Found, id oauth.Client) *oauth.Grantor {
	g := &oauth.Grantor{HTTP: c, Issuer: f.Issuer, Client: id, Settings: s, Resource: cmp.Or(s.Resource, f.Resource)}
	if s.NoResource {
		g.Resource = ""
	}
	return g
}

// discover returns the issuer of the server's tokens, and the server's challenge to a request
// without a token. If the server refuses only some requests, the source may know the issuer already.
func discover(ctx context.Context, s *Source) (*oauth.Found, oauth.Challenge, error) {
	challenge, refused, unasked := probe(ctx, s.http, s.server)
	known := s.found.Load()
	if known != nil && !refused {
		return known, challenge, nil
	}
	found, err := oauth.Discover(ctx, s.http, s.server, challenge)
	switch {
	case err != nil && known != nil:
		return known, challenge, nil
	case unasked != nil && (err != nil || !found.Asserted):
		return nil, challenge, unasked
	case err != nil:
		return nil, challenge, err
	case !found.Asserted && !refused:
		return nil, challenge, errors.New("it answers without a token, and describes no issuer; it needs no login")
	}
	if found.Issuer.TokenEndpoint == "" {
		return nil, challenge, ErrNoOAuth
	}
	s.found.Store(found)
	return found, challenge, nil
}

// probe sends requests without a token and content, and reports whether the server refuses one.
// The error says why the server answered no request.
func probe(ctx context.Context, c *http.Client, s oauth.Server) (challenge oauth.Challenge, refused bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	err = errors.New("no request was sent")
	for _, method := range []string{http.MethodPost, http.MethodGet} {
		req, failed := http.NewRequestWithContext(ctx, method, s.URL, nil)
		if failed != nil {
			return challenge, false, failed
		}
		req.Header.Set("Accept", "application/json, text/event-stream")
		req.Header.Set("Content-Type", "application/json")
		resp, failed := c.Do(req)
		if failed != nil { // such as a redirect of a POST
			if err != nil {
				err = failed
			}
			continue
		}
		resp.Body.Close() // it may be a stream without an end
		if resp.StatusCode == http.StatusUnauthorized {
			return oauth.ChallengeOf(resp), true, nil
		}
		err = nil
	}
	return challenge, false, err
}

// toAsk returns the scopes to ask for. Scopes of the settings are not widened: they are the most
// that the router may have.
func (p *Pending) toAsk(challenge oauth.Challenge, saved *storedLogin) ([]string, error) {
	settings, granted := p.request.Server.Settings, p.request.Scopes
	if saved != nil && saved.Found.Issuer.ID == p.found.Issuer.ID {
		granted = oauth.Union(saved.Token.Scopes, granted)
	}
	for _, scope := range p.request.Scopes {
		if len(settings.Scopes) > 0 && !slices.Contains(settings.Scopes, scope) {
			return nil, fmt.Errorf("the login must permit %q, which oauth.scopes of the configuration leaves out; add it there and log in again", scope)
		}
	}
	return oauth.ScopesToAsk(settings, &p.found, challenge, granted), nil
}

// loopbackPath is the path of redirects to this machine.
const loopbackPath = "/callback"

// comeBack decides where the login comes back, and opens the listener if that is this machine. kept is the client that was
// registered before, nil if no client was: its port comes first, so that no other registration is needed.
func (p *Pending) comeBack(kept *oauth.Client) (err error) {
	set, public, life := p.request.Server.Settings, p.logins.publicURL(), p.logins.life
	switch port := set.CallbackPort; {
	case p.request.Way == Device: // it does not come back
		return nil
	case p.request.Way == Public && public == "":
		return errors.New("the router has no public URL to which a login could come back; set http.publicUrl")
	case p.request.Way == Public:
		p.redirect = public + CallbackPath
		return nil
	case port == 0 && set.CallbackURL != "":
		return errors.New("oauth.callbackUrl needs oauth.callbackPort: the port of this machine to which you forward it")
	case port != 0:
		if p.listener, err = listen(life, port, p.answer); err != nil {
			return fmt.Errorf("the login can't come back, since port %d (oauth.callbackPort) is in use: %w; end the program that listens on it, which may be another login under way, or set another port that the client is registered with", port, err)
		}
		p.redirect = cmp.Or(set.CallbackURL, loopbackURI("localhost", port))
		return nil
	}
	if port := portOf(kept); port != 0 {
		if p.listener, err = listen(life, port, p.answer); err == nil {
			p.redirect = kept.RedirectURI
			return nil
		}
	}
	if p.listener, err = listen(life, 0, p.answer); err != nil {
		return fmt.Errorf("the login can't come back, since no port of this machine is free: %w", err)
	}
	p.redirect = loopbackURI("127.0.0.1", p.listener.port)
	return nil
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
