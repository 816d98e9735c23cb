package oauth

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/oauthex"
)

// maxIssuers bounds the issuers of a server that are tried.
const maxIssuers = 5

const resourcePath = "/.well-known/oauth-protected-resource"

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
// 2025-03-26, and not Asserted. If its authorization endpoint is not there either, or the server is
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
		found.Resource, found.Scopes = r.Resource, ValidScopes(r.ScopesSupported)
	}
	return found, ctx.Err()
}

// issuerAt returns the issuer that the document at the URL describes. A document at another origin
// than its issuer's may lie: then the code of a login at the true issuer would go to a stranger. So
// it must name the token endpoint's host that the issuer names itself, if that describes itself.
func (d *discovery) issuerAt(ctx context.Context, at string) (*Issuer, error) {
	i := &Issuer{}
	if err := d.fetcher.get(ctx, at, i); err != nil {
		return nil, err
	}
	u, err := url.Parse(i.ID)
	if err == nil {
		err = d.fetcher.reach.check(ctx, u)
	}
	if err != nil || len(i.ID) > maxURL {
		return nil, fmt.Errorf("%s: its issuer is %s, which is no url that can be used", shown(at), oneLine(i.ID))
	}
	if place, err := url.Parse(at); err == nil && originOf(place) != originOf(u) {
		self, err := d.fetcher.issuer(ctx, i.ID)
		switch {
		case errors.Is(err, errAbsent):
		case err != nil:
			return nil, fmt.Errorf("the issuer %s can't be asked whether %s describes it: %w", shown(i.ID), shown(at), err)
		case Origin(self.TokenEndpoint) != Origin(i.TokenEndpoint):
			return nil, fmt.Errorf("%s describes the issuer %s with the token endpoint %s, the issuer itself with %s",
				shown(at), shown(i.ID), shown(i.TokenEndpoint), shown(self.TokenEndpoint))
		}
	}
	return i, d.usable(ctx, i, true)
}

// usable returns an error if logins at the issuer are not possible. silent permits that it does not
// say whether it supports PKCE.
func (d *discovery) usable(ctx context.Context, i *Issuer, silent bool) error {
	needed := []*string{&i.TokenEndpoint}
	switch d.settings.Grant {
	case DeviceCode:
		needed = append(needed, &i.DeviceEndpoint)
	case "", AuthorizationCode:
		needed = append(needed, &i.AuthorizationEndpoint)
		if !slices.Contains(i.PKCE, "S256") && !(silent && len(i.PKCE) == 0) {
			return fmt.Errorf("the issuer %s does not say that it supports PKCE with S256 (code_challenge_methods_supported), "+
				"without which others could use a login; if it does support it, put the URL of its metadata into authServerMetadataUrl", shown(i.ID))
		}
	}
	i.Scopes = ValidScopes(i.Scopes)
	return d.fetcher.checkEndpoints(ctx, i, needed...)
}

// byOrigin finds the issuer of a server without metadata: its origin (revision 2025-03-26), with the
// endpoints of that revision if it describes nothing and has them.
func (d *discovery) byOrigin(ctx context.Context) (*Found, error) {
	found, origin := &Found{Resource: d.identifier()}, originOf(d.server)
	issuer, err := d.fetcher.issuer(ctx, origin)
	switch {
	case err == nil:
		found.Issuer, found.Asserted = *issuer, true
		return found, d.usable(ctx, &found.Issuer, false)
	case !errors.Is(err, errAbsent):
		return nil, err
	}
	if there, err := d.isThere(ctx, origin+"/authorize"); err != nil || !there {
		return found, err
	}
	found.Issuer = Issuer{ID: origin, AuthorizationEndpoint: origin + "/authorize", TokenEndpoint: origin + "/token", RegistrationEndpoint: origin + "/register"}
	return found, nil
}

// isThere reports whether a page for browsers is there. It gets no parameters, so that it may
// answer anything, but not that it is missing or wants a token.
func (d *discovery) isThere(ctx context.Context, at string) (bool, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return false, errors.New("the server's url is no url")
	}
	resp, err := Unredirected(d.fetcher.client).Do(r)
	if err != nil {
		return false, fmt.Errorf("%s: %w", shown(at), unreachable(err))
	}
	resp.Body.Close()
	return !slices.Contains([]int{401, 403, 404, 405, 410, 501}, resp.StatusCode), nil
}

// identifier returns the resource of a server that publishes no resource: its URL, without the query,
// which may hold a key.
func (d *discovery) identifier() string {
	u := url.URL{Scheme: d.server.Scheme, Host: d.server.Host, Path: d.server.Path, RawPath: d.server.RawPath}
	return u.String()
}

// resource reads the metadata of the server (RFC 9728): from named, if that is not "", else by the
// well-known paths, in the order of revision 2025-11-25.
func (d *discovery) resource(ctx context.Context, named string) (*oauthex.ProtectedResourceMetadata, error) {
	var places []string
	if named != "" {
		places = append(places, named)
	}
	root := originOf(d.server) + resourcePath
	if p := d.server.EscapedPath(); p != "" && p != "/" {
		own := root + p
		if d.server.RawQuery != "" {
			own += "?" + d.server.RawQuery
		}
		places = append(places, own)
	}
	return first(ctx, d.fetcher, append(places, root), func(at string, r *oauthex.ProtectedResourceMetadata) error {
		if r.Resource == "" && len(r.AuthorizationServers) == 0 {
			return fmt.Errorf("%s: %w: its JSON names no resource", shown(at), errAbsent)
		}
		if !ofServer(d.server, r.Resource) {
			return fmt.Errorf("%s: it describes the resource %s, not this server (%s); no login is possible until who runs the server corrects it",
				shown(at), cmp.Or(shown(r.Resource), `""`), shown(d.server.String()))
		}
		return nil
	})
}

// ofServer reports whether a resource is the server or a parent of it: the same origin, and a path that the
// server's path is or is below of. An identifier with a query must have the server's.
func ofServer(server *url.URL, resource string) bool {
	r, err := url.Parse(resource)
	if err != nil || len(resource) > maxURL || r.Fragment != "" || r.User != nil || r.Opaque != "" || originOf(r) != originOf(server) ||
		r.RawQuery != "" && r.RawQuery != server.RawQuery {
		return false
	}
	parent, child := strings.TrimSuffix(r.EscapedPath(), "/"), strings.TrimSuffix(server.EscapedPath(), "/")
	clean := parent == "" || path.Clean(parent) == parent // not such as /mcp/../other
	return clean && strings.HasPrefix(child+"/", parent+"/")
}

// byResource returns the first issuer of the server's metadata that can be used.
func (d *discovery) byResource(ctx context.Context, r *oauthex.ProtectedResourceMetadata) (*Found, error) {
	ids := r.AuthorizationServers
	if len(ids) == 0 {
		ids = []string{originOf(d.server)} // as the TypeScript SDK does
	}
	var failed error
	for _, id := range ids[:min(len(ids), maxIssuers)] {
		issuer, err := d.fetcher.issuer(ctx, id)
		if err == nil {
			err = d.usable(ctx, issuer, false)
		}
		switch {
		case err == nil:
			return &Found{Resource: r.Resource, Scopes: ValidScopes(r.ScopesSupported), Issuer: *issuer, Asserted: true}, nil
		case errors.Is(err, errAbsent):
			err = fmt.Errorf("the issuer %s describes itself nowhere: %w", shown(id), err)
		}
		if failed != nil {
			err = fmt.Errorf("%w; %w", failed, err)
		}
		failed = err
	}
	return nil, failed
}
