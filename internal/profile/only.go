package profile

import (
	"net/url"
	"strings"

	"github.com/mcp-metarouter/metarouter/config"
)

// onlyPrefix begins a choice of servers. No profile of the configuration can have such a name.
const onlyPrefix = "s/"

// Only returns a choice that allows these servers alone, with all that they offer. Like [ReadOnly], it is no choice of a
// profile: the profile "default" goes on to apply.
func Only(servers ...string) string {
	escaped := make([]string, len(servers))
	for i, server := range servers {
		escaped[i] = strings.ReplaceAll(url.PathEscape(server), "+", "%2B") // which joins choices
	}
	return onlyPrefix + strings.Join(escaped, ",")
}

// OnlyOf returns the servers of a choice that [Only] has made; nil for others.
func OnlyOf(choice string) (servers []string) {
	text, ok := strings.CutPrefix(choice, onlyPrefix)
	if !ok {
		return nil
	}
	for name := range strings.SplitSeq(text, ",") {
		server, err := url.PathUnescape(name)
		if err != nil {
			server = name
		}
		servers = append(servers, server)
	}
	return servers
}

// isProfile reports whether a choice is a profile's, or a union's.
func isProfile(choice string) bool {
	return choice != ReadOnly && !strings.HasPrefix(choice, onlyPrefix)
}

var literal = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`)

// onlyServers returns the profile that allows these servers. Its clients run no scripts.
func onlyServers(servers []string) config.Profile {
	p := config.Profile{Servers: []string{}, Scripts: new(bool)}
	for _, server := range servers {
		p.Servers = append(p.Servers, literal.Replace(server))
	}
	return p
}
