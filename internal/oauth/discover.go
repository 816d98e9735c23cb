package oauth

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
)

// ErrUnreachable is wrapped by errors of [Discover] if the server or an issuer did not answer, or
// with a status of 500 or above: it may answer later.
var ErrUnreachable = errors.New("no answer")

// errAbsent is wrapped by errors of documents that are not there: a status of 400 to 499, or an
// answer that is no JSON, such as a page for people.
var errAbsent = errors.New("no document")

// A failureError is an answer with a status of 500 or above. It is an [ErrUnreachable].
type failureError struct{ status int }

func (e *failureError) Error() string {
	return fmt.Sprintf("it answers %d %s", e.status, http.StatusText(e.status))
}

func (e *failureError) Unwrap() error { return ErrUnreachable }

// Discover finds the issuer of the server's tokens: from the metadata that the challenge
// names, else by well-known paths, else the server's own origin (revision 2025-03-26). If the
// server names several issuers, it is the first that can be used.
//
// Settings.AuthServerMetadataURL wins over all of these: the issuer is then the one that the document at
// this URL describes, and the server's metadata, if it is good, gives only the resource and the
// scopes.
//
// The resource of the server's metadata must be the server's URL or a parent of it, at the same
// origin. The issuer in an issuer's metadata must have the URL by which they were found. For
// logins with a browser the issuer must support PKCE with S256; only at AuthServerMetadataURL it
// may be silent about it. All URLs must be ones that [NewHTTPClient] permits.
//
// If there are no metadata at all, the issuer is the server's origin with the endpoints of revision
// 2025-03-26, and is Guessed. If its authorization endpoint is not there either, or the server is
// not reached by https, the Issuer is the zero value: the server has no OAuth.
func Discover(ctx context.Context, c *http.Client, s Server, challenge Challenge) (*Found, error) {
	server, err := url.Parse(s.URL)
	if err != nil || server.Host == "" {
		return nil, errors.New("the server's url is no url")
	}
	d := &discovery{fetcher: fetcher{c, reachOf(s)}, server: server, settings: s.Settings}
	byHand := s.Settings.AuthServerMetadataURL
	if err := d.fetcher.reach.check(ctx, &url.URL{Scheme: server.Scheme, Host: server.Host}); err != nil {
		if challenge.MetadataURL != "" || byHand != "" {
			return nil, fmt.Errorf("no login is possible, since anyone on the way could read the token: %w; use https", err)
		}
		return &Found{Resource: d.identifier()}, nil
	}
	if byHand != "" {
		return d.byHand(ctx, byHand, challenge)
	}
	r, err := d.resource(ctx, challenge.MetadataURL)
	switch {
	case errors.Is(err, errAbsent):
		return d.byOrigin(ctx)
	case err != nil:
		return nil, err
	}
	return d.byResource(ctx, r)
}

// A discovery finds the issuer of one server.
type discovery struct {
	fetcher  fetcher
	server   *url.URL
	settings Settings
}

// byHand finds the issuer that the settings name.
func (d *discovery) byHand(ctx context.Context, at string, challenge Challenge) (*Found, error) {
	issuer, err := d.issuerAt(ctx, at)
	if err != nil {
		return nil, fmt.Errorf("%w; check authServerMetadataUrl", err)
	}
	found := &Found{Resource: d.identifier(), Issuer: *issuer, Asserted: true}
	if r, err := d.resource(ctx, challenge.MetadataURL); err == nil {
		found.Resource, found.Scopes = r.Resource, namedScopes(r.ScopesSupported)
	}
	return found, ctx.Err()
}

// byOrigin finds the issuer of a server without metadata: its origin (revision 2025-03-26).
func (d *discovery) byOrigin(ctx context.Context) (*Found, error) {
	issuer, err := d.issuer(ctx, d.origin())
	switch {
	case errors.Is(err, errAbsent):
		return d.guess(ctx)
	case err != nil:
		return nil, err
	}
	return &Found{Resource: d.identifier(), Issuer: *issuer, Asserted: true}, nil
}

// guess returns the endpoints of a server that describes nothing (revision 2025-03-26), if it has
// them.
func (d *discovery) guess(ctx context.Context) (*Found, error) {
	origin := d.origin()
	found := &Found{Resource: d.identifier()}
	if there, err := d.isThere(ctx, origin+"/authorize"); err != nil || !there {
		return found, err
	}
	found.Issuer = Issuer{
		ID:                    origin,
		AuthorizationEndpoint: origin + "/authorize",
		TokenEndpoint:         origin + "/token",
		RegistrationEndpoint:  origin + "/register",
		Guessed:               true,
	}
	return found, nil
}

// isThere reports whether a page for browsers is there. It gets no parameters, so that it may
// answer anything, but not that it is missing or wants a token.
func (d *discovery) isThere(ctx context.Context, at string) (bool, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return false, errors.New("the server's url is no url")
	}
	resp, err := unredirected(d.fetcher.client).Do(r)
	if err != nil {
		return false, fmt.Errorf("%s: %w", shown(at), unreachable(err))
	}
	resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusGone, http.StatusNotImplemented:
		return false, nil
	}
	return true, nil
}

// origin returns the scheme, host and port of the server.
func (d *discovery) origin() string {
	return (&url.URL{Scheme: d.server.Scheme, Host: d.server.Host}).String()
}

// identifier returns the resource of a server that publishes no resource: its URL, without the query,
// which may hold a key.
func (d *discovery) identifier() string {
	u := url.URL{Scheme: d.server.Scheme, Host: d.server.Host, Path: d.server.Path, RawPath: d.server.RawPath}
	return u.String()
}
