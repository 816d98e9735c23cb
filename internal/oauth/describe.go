package oauth

import (
	"context"
	"fmt"
	"net/http"
)

// Describe reads the metadata of an issuer by its identifier, a URL: as RFC 8414 has them, else as
// OpenID Connect has them. The issuer counts as named by the configuration, so that its host
// may have any address; c is the client that [NewHTTPClient] returns for a server with its URL.
//
// The issuer in the metadata must be the identifier byte for byte, since tokens are compared with
// it (RFC 8414, section 3.3). All its endpoints must be ones that [NewHTTPClient] permits. Each of
// them may be missing, and it need not support PKCE. The error wraps [ErrUnreachable] if the issuer
// did not answer.
func Describe(ctx context.Context, c *http.Client, id string) (*Issuer, error) {
	f := fetcher{c, reachOf(Server{URL: id})}
	m, err := f.issuer(ctx, id)
	if err != nil {
		return nil, err
	}
	if m.Issuer != id {
		return nil, fmt.Errorf("the issuer %s describes itself as %s; write exactly that into its url", shown(id), clip(m.Issuer))
	}
	if err := f.checkEndpoints(ctx, id, m.endpoints()); err != nil {
		return nil, err
	}
	return m.issuer(), nil
}
