package config

import (
	"regexp"
	"slices"
	"strings"

	"github.com/tailscale/hujson"

	"github.com/mcp-metarouter/metarouter/internal/jsonc"
	"github.com/mcp-metarouter/metarouter/internal/lazy"
)

// The files of clients that are not read as they are, since they are no JSON: Codex's, in TOML, and
// Goose's, in YAML.
var (
	codexServers    = lazy.Regexp(`(?m)^[ \t]*\[?mcp_servers\b`)
	gooseExtensions = lazy.Regexp(`(?m)^extensions:`)
)

// foreign returns the problem of a file of a client that 'metarouter import' reads.
func foreign(s source) (p Problem, ok bool) {
	for _, c := range []struct {
		client, title, format string
		servers               func() *regexp.Regexp
	}{{"codex", "Codex", "TOML", codexServers}, {"goose", "Goose", "YAML", gooseExtensions}} {
		if at := c.servers().FindIndex(s.data); at != nil {
			return s.problem(at[0], "this is a file of %s, in %s, which is not read as it is; run: %s", c.title, c.format, importOf(s, c.client)), true
		}
	}
	return p, false
}

// importOf returns the command that imports the servers of the file.
func importOf(s source, client string) string {
	path := s.path
	if strings.ContainsAny(path, " '\"$&|;()") {
		path = quote(path)
	}
	return "metarouter import " + client + " --file " + path + " --write"
}

// isOpencode reports whether a member of the file has the servers of opencode: each has the type
// "local" or "remote".
func isOpencode(m hujson.ObjectMember) bool {
	o, ok := m.Value.Value.(*hujson.Object)
	if !ok || jsonc.Key(m) != "mcp" {
		return false
	}
	if inner, ok := jsonc.Member(o, "servers"); ok {
		if deeper, ok := inner.Value.Value.(*hujson.Object); ok {
			o = deeper
		}
	}
	return slices.ContainsFunc(o.Members, func(m hujson.ObjectMember) bool {
		entry, ok := m.Value.Value.(*hujson.Object)
		if !ok {
			return false
		}
		kind, _ := jsonc.Member(entry, "type")
		said, ok := kind.Value.Value.(hujson.Literal)
		return ok && (said.String() == "local" || said.String() == "remote")
	})
}
