package identity

import (
	"strings"

	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"github.com/mcp-metarouter/metarouter/internal/wire"
)

const (
	// metadataPath is where clients find the metadata of a protected resource (RFC 9728): it
	// alone, or with the path of the resource behind it.
	metadataPath = "/.well-known/oauth-protected-resource"

	// ProfilePrefix begins the paths that name a profile: /mcp/p/NAME is as /mcp, and
	// /mcp/p/NAME/<method> as /mcp/<method>. There is no method of the name p.
	ProfilePrefix = "/mcp/p/"
)

// IsProfileName reports whether a profile may have the name: up to 32 of a-z, 0-9 and the hyphen.
func IsProfileName(name string) bool {
	return name != "" && len(name) <= 32 && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}

// ResourceOf returns the path of the resource that a request for the profile is for. All that is no MCP takes
// the tokens for /mcp.
func ResourceOf(profile string) string {
	if !IsProfileName(profile) {
		return "/mcp"
	}
	return ProfilePrefix + profile
}

// IsMetadata reports whether the path is a path of metadata, which need not exist.
func IsMetadata(path string) bool {
	return path == metadataPath || strings.HasPrefix(path, metadataPath+"/")
}

// Metadata returns the metadata at the path, for any well-formed name of a profile: strangers do not learn
// which profiles there are. It is nil for any other path.
func (r *Rules) Metadata(path string) []byte {
	of := strings.TrimSuffix(strings.TrimPrefix(path, metadataPath), "/")
	if rest, below := r.Below(of); below { // clients put the well-known path before the path of the resource
		of = strings.TrimSuffix(rest, "/")
	}
	switch profile, ok := strings.CutPrefix(of, ProfilePrefix); {
	case of == "":
		of = "/mcp"
	case of != "/mcp" && !(ok && IsProfileName(profile)):
		return nil
	}
	var servers, scopes []string
	for _, i := range r.works {
		servers = append(servers, i.URL)
		scopes = append(append(scopes, i.Read...), i.Call...)
	}
	return wire.Marshal(oauthex.ProtectedResourceMetadata{
		Resource: r.PublicURL + of, AuthorizationServers: servers, ScopesSupported: strings.Fields(scopeOf(scopes)),
		BearerMethodsSupported: []string{"header"}, ResourceName: "metarouter",
	})
}
