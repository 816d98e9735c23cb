package clients

import (
	"strings"

	"github.com/mcp-metarouter/metarouter/config"
)

// MayNeedLogin reports whether a server may need a login by OAuth, as far as that can be
// seen in its entry: it is remote, and gets no header.
func MayNeedLogin(s config.Server) bool {
	return strings.HasPrefix(s.URL, "https://") && len(s.Headers) == 0
}
