package login

import (
	"net"
	"net/url"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"github.com/mcp-metarouter/metarouter/internal/oauth"
	"github.com/mcp-metarouter/metarouter/internal/wire"
)

// Document returns the client ID metadata document (draft-ietf-oauth-client-id-metadata-document)
// in JSON, or nil without a PublicURL.
func (l *Logins) Document() []byte {
	public := l.publicURL()
	if public == "" {
		return nil
	}
	return wire.Marshal(struct {
		ClientID string `json:"client_id"`
		oauthex.ClientRegistrationMetadata
	}{public + DocumentPath, oauthex.ClientRegistrationMetadata{
		ClientName: "metarouter",
		ClientURI:  public,
		// Issuers accept any port of the loopback ones (RFC 8252, section 7.3).
		RedirectURIs:            []string{public + CallbackPath, loopbackURI("127.0.0.1", 0), loopbackURI("localhost", 0)},
		GrantTypes:              []string{"authorization_code", "refresh_token", "urn:ietf:params:oauth:grant-type:device_code"},
		ResponseTypes:           []string{"code"},
		TokenEndpointAuthMethod: "none",
		ApplicationType:         "native",
	}})
}

// documentURL returns the URL of a client ID metadata document that an issuer can read: from the
// settings, else the router's own; "" if issuers can't read that.
func documentURL(public string, s oauth.Settings) string {
	if s.ClientMetadataURL != "" {
		return s.ClientMetadataURL
	}
	u, err := url.Parse(public)
	if err != nil || u.Scheme != "https" || isLocal(u.Hostname()) {
		return ""
	}
	return public + DocumentPath
}

// isLocal reports whether issuers on the internet certainly can't reach the host.
func isLocal(host string) bool {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if ip := net.ParseIP(host); ip != nil {
		return !ip.IsGlobalUnicast() || ip.IsPrivate()
	}
	_, end, ok := strings.Cut(host, ".")
	return !ok || slices.Contains([]string{"local", "localhost", "internal", "lan", "arpa"}, end[strings.LastIndexByte(end, '.')+1:])
}

// publicURL returns the URL by which browsers reach the router's HTTP server, "" if they can't.
func (l *Logins) publicURL() string {
	if l.options.PublicURL == nil {
		return ""
	}
	return strings.TrimSuffix(l.options.PublicURL(), "/")
}
