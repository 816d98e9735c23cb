package oauth

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"path"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/oauthex"
)

// maxIssuers bounds the issuers of a server that are tried.
const maxIssuers = 5

const resourcePath = "/.well-known/oauth-protected-resource"

// resource reads the metadata of the server (RFC 9728): from named, if that is not "", else by the
// well-known paths. It is not [oauthex.GetProtectedResourceMetadata], which knows of no parents and
// of no private networks.
func (d *discovery) resource(ctx context.Context, named string) (*oauthex.ProtectedResourceMetadata, error) {
	var r *oauthex.ProtectedResourceMetadata
	err := first(d.resourceURLs(named), func(at string) error {
		var document oauthex.ProtectedResourceMetadata
		if err := d.fetcher.get(ctx, at, &document); err != nil {
			return err
		}
		if document.Resource == "" && len(document.AuthorizationServers) == 0 {
			return fmt.Errorf("%s: %w: its JSON names no resource", shown(at), errAbsent)
		}
		if err := ofServer(d.server, document.Resource); err != nil {
			return fmt.Errorf("%s: %w; no login is possible until who runs the server corrects it", shown(at), err)
		}
		r = &document
		return nil
	})
	return r, err
}

// resourceURLs returns where the metadata of the server may be, in the order of revision
// 2025-11-25.
func (d *discovery) resourceURLs(named string) []string {
	var urls []string
	if named != "" {
		urls = append(urls, named)
	}
	at := url.URL{Scheme: d.server.Scheme, Host: d.server.Host}
	if p := d.server.EscapedPath(); p != "" && p != "/" {
		own := at.String() + resourcePath + p
		if d.server.RawQuery != "" {
			own += "?" + d.server.RawQuery
		}
		urls = append(urls, own)
	}
	return append(urls, at.String()+resourcePath)
}

// ofServer checks that a resource is the server or a parent of it: the same origin, and a path that the
// server's path is or is below of. An identifier with a query must have the server's.
func ofServer(server *url.URL, resource string) error {
	r, err := url.Parse(resource)
	mismatch := fmt.Errorf("it describes the resource %s, not this server (%s)", cmp.Or(shown(resource), `""`), shown(server.String()))
	switch {
	case err != nil || len(resource) > maxURL || r.Fragment != "" || r.User != nil || r.Opaque != "":
		return mismatch
	case !strings.EqualFold(r.Scheme, server.Scheme) || !SameHost(r, server):
		return mismatch
	case r.RawQuery != "" && r.RawQuery != server.RawQuery:
		return mismatch
	}
	parent, child := r.EscapedPath(), server.EscapedPath()
	if parent != "" && path.Clean(parent) != strings.TrimSuffix(parent, "/") && parent != "/" {
		return mismatch // such as /mcp/../other
	}
	if !strings.HasPrefix(strings.TrimSuffix(child, "/")+"/", strings.TrimSuffix(parent, "/")+"/") {
		return mismatch
	}
	return nil
}

// byResource returns the first issuer of the server's metadata that can be used.
func (d *discovery) byResource(ctx context.Context, r *oauthex.ProtectedResourceMetadata) (*Found, error) {
	ids := r.AuthorizationServers
	if len(ids) == 0 {
		ids = []string{d.origin()} // as the TypeScript SDK does
	}
	var failed error
	for _, id := range ids[:min(len(ids), maxIssuers)] {
		issuer, err := d.issuer(ctx, id)
		if err == nil {
			return &Found{Resource: r.Resource, Scopes: namedScopes(r.ScopesSupported), Issuer: *issuer, Asserted: true}, nil
		}
		if errors.Is(err, errAbsent) {
			err = fmt.Errorf("the issuer %s describes itself nowhere: %w", shown(id), err)
		}
		if failed == nil {
			failed = err
		} else {
			failed = fmt.Errorf("%w; %w", failed, err)
		}
	}
	return nil, failed
}
