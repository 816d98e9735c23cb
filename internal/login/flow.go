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

// A flow is a pending login as OAuth sees it: where it leads, how it comes back, and the tokens in
// the end.
type flow struct {
	logins   *Logins
	server   oauth.Server
	who      string // the name of the principal
	way      Way
	asked    []string // scopes of the requests for the login
	state    string
	verifier string

	source   *Source // this and the following is set by prepare
	found    oauth.Found
	scopes   []string
	redirect string
	listener *loopback // nil unless it comes back to this machine
	grantor  *oauth.Grantor
	reused   bool // the client was registered for an earlier login
	device   *oauth.Device
}

// prepare gets all that the login needs, and returns where the person logs in.
func (f *flow) prepare(ctx context.Context) (page string, err error) {
	l := f.logins
	f.source = l.Source(f.server)
	client := oauth.NewHTTPClient(f.server)
	found, challenge, err := f.discover(ctx, client)
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = fmt.Errorf("the server, or an issuer that it names, does not answer; is the network up? (%w)", e.Err)
	}
	if err != nil {
		return "", fmt.Errorf("who issues its tokens can't be found: %w", err)
	}
	f.found = *found
	saved, err := f.source.account.saved(ctx)
	if err != nil {
		return "", err
	}
	if err := f.source.account.permit(ctx, found.Issuer.ID, false); err != nil {
		return "", err
	}
	if f.scopes, err = f.toAsk(challenge, saved); err != nil {
		return "", err
	}
	redirect, kept, err := f.redirectFor(ctx)
	if err != nil {
		return "", err
	}
	f.redirect = redirect.URI
	id, err := oauth.Identify(ctx, client, f.server, found.Issuer, redirect, kept)
	if err != nil {
		return "", err
	}
	f.reused = id.Registered && kept != nil && *kept == id
	if id.Registered && !f.reused {
		if err := f.source.account.keepClient(ctx, found.Issuer.ID, id); err != nil {
			return "", fmt.Errorf("the registration at %s can't be stored: %w", found.Issuer.ID, err)
		}
	}
	f.grantor = grantor(client, f.server.Settings, f.found, id)
	if f.way == Device {
		return f.prepareDevice(ctx)
	}
	if page = f.grantor.AuthorizationURL(f.state, f.verifier, f.redirect, f.scopes); page == "" {
		return "", errors.New("the issuer names a login page that is no web address")
	}
	return page, nil
}

func (f *flow) prepareDevice(ctx context.Context) (string, error) {
	if f.found.Issuer.DeviceEndpoint == "" {
		return "", fmt.Errorf("its issuer %s has no logins by device code; log in without", f.found.Issuer.ID)
	}
	if err := f.source.account.permit(ctx, f.found.Issuer.ID, true); err != nil {
		return "", err
	}
	device, err := f.grantor.StartDevice(ctx, f.scopes)
	if err != nil {
		f.discardClient(ctx, err)
		return "", fmt.Errorf("the login at %s failed: %w", f.found.Issuer.ID, err)
	}
	f.device = device
	return cmp.Or(device.CompleteURL, device.URL), nil
}

// grantor returns the client of the issuer that asks for tokens for the server.
func grantor(c *http.Client, s oauth.Settings, f oauth.Found, id oauth.Client) *oauth.Grantor {
	g := &oauth.Grantor{HTTP: c, Issuer: f.Issuer, Client: id, Settings: s, Resource: f.Resource}
	switch {
	case s.NoResource:
		g.Resource = ""
	case s.Resource != "":
		g.Resource = s.Resource
	}
	return g
}

// discover returns the issuer of the server's tokens, and the server's challenge to a request
// without a token. If the server refuses only some requests, the source may know the issuer already.
func (f *flow) discover(ctx context.Context, c *http.Client) (*oauth.Found, oauth.Challenge, error) {
	challenge, refused, unasked := probe(ctx, c, f.server)
	known := f.source.found.Load()
	if known != nil && !refused {
		return known, challenge, nil
	}
	found, err := oauth.Discover(ctx, c, f.server, challenge)
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
	f.source.found.Store(found)
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
func (f *flow) toAsk(challenge oauth.Challenge, saved *storedLogin) ([]string, error) {
	settings, granted := f.server.Settings, f.asked
	if saved != nil && saved.Found.Issuer.ID == f.found.Issuer.ID {
		granted = oauth.Union(saved.Token.Scopes, granted)
	}
	for _, scope := range f.asked {
		if len(settings.Scopes) > 0 && !slices.Contains(settings.Scopes, scope) {
			return nil, fmt.Errorf("the login must permit %q, which oauth.scopes of the configuration leaves out; add it there and log in again", scope)
		}
	}
	return oauth.ScopesToAsk(settings, &f.found, challenge, granted), nil
}

// redeem turns the answer of the issuer into tokens in the store.
func (f *flow) redeem(ctx context.Context, answer url.Values) error {
	code, err := f.grantor.CheckResponse(answer)
	if err != nil {
		return f.explain(err)
	}
	if err := f.source.account.permit(ctx, f.found.Issuer.ID, true); err != nil {
		return f.explain(err)
	}
	token, err := f.grantor.Exchange(ctx, code, f.verifier, f.redirect, f.scopes)
	if err != nil {
		f.discardClient(ctx, err)
		return f.explain(err)
	}
	return f.save(ctx, token)
}

// save stores the token.
func (f *flow) save(ctx context.Context, token oauth.Token) error {
	err := f.source.save(ctx, storedLogin{Found: f.found, Client: f.grantor.Client, Token: token, Who: f.who})
	if err != nil {
		return fmt.Errorf("the login at %s succeeded, but could not be stored: %w", f.server.Name, err)
	}
	return nil
}

// discardClient has the next login register again if the error says that the issuer does not know
// the client.
func (f *flow) discardClient(ctx context.Context, err error) {
	if f.grantor.Client.Registered && refusesClient(err) {
		f.source.account.dropClient(ctx, f.found.Issuer.ID)
	}
}

// explain says in a person's words why the login failed.
func (f *flow) explain(err error) error {
	issuer := f.found.Issuer.ID
	if refusal, ok := errors.AsType[*oauth.Refusal](err); ok {
		switch refusal.Code {
		case "access_denied":
			return fmt.Errorf("the login at %s was refused at %s, by you or by its rules: %w", f.server.Name, issuer, err)
		case "expired_token":
			return errExpired
		}
	}
	return fmt.Errorf("the login at %s (%s) failed: %w", f.server.Name, issuer, err)
}

// loopbackPath is the path of redirects to this machine.
const loopbackPath = "/callback"

// redirectFor returns where the login comes back, with the client that was registered before, nil
// if no client was. A listener waits there from now on.
func (f *flow) redirectFor(ctx context.Context) (oauth.Redirect, *oauth.Client, error) {
	redirect := oauth.Redirect{DocumentURL: documentURL(f.logins.publicURL(), f.server.Settings)}
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
