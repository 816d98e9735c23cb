package clients

import (
	"net/url"
	"slices"
	"strings"

	"github.com/mcp-metarouter/metarouter/config"
)

// hosted lists hosts whose servers log their users in with a browser. Some take a token
// too.
var hosted = []string{
	"api.githubcopilot.com", "bindings.mcp.cloudflare.com", "mcp.asana.com", "mcp.atlassian.com", "mcp.canva.com", "mcp.figma.com",
	"mcp.intercom.com", "mcp.linear.app", "mcp.monday.com", "mcp.notion.com", "mcp.paypal.com", "mcp.sentry.dev", "mcp.squareup.com",
	"mcp.stripe.com", "mcp.vercel.com", "mcp.webflow.com", "observability.mcp.cloudflare.com",
}

// MayNeedLogin reports whether a server may need a login by OAuth, as far as that can be
// seen in its entry: it has "oauth", or its host is known, and it sends no header of its own.
func MayNeedLogin(s config.Server) bool {
	u, err := url.Parse(s.URL)
	return err == nil && s.URL != "" && len(s.Headers) == 0 && (s.OAuth != nil || slices.Contains(hosted, strings.ToLower(u.Hostname())))
}
