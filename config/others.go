package config

import (
	"regexp"
	"slices"
	"strings"

	"github.com/tailscale/hujson"

	"github.com/mcp-metarouter/metarouter/config/internal/keys"
	"github.com/mcp-metarouter/metarouter/internal/jsonc"
	"github.com/mcp-metarouter/metarouter/internal/lazy"
)

// othersInEntries are keys of entries that other clients and routers know, and that have no
// effect here. Keys of theirs that have a counterpart here are not among them, so that
// people learn of it.
var othersInEntries = words(`
	alwaysLoad
	dev gallery version sandbox sandboxEnabled
	auth
	autoApprove alwaysAllow networkTimeout watchPaths disabledForPrompts remoteConfigured
	trust authProviderType targetAudience targetServiceAccount tcp extension extensionName instructions
	isDefaultServer filterMapping deferTools
	oauthScopes agentId
	source settings remote
	start_on_launch
	active isActive official provider providerUrl logoUrl tags longRunning registryUrl searchKey installSource dxtVersion dxtPath
	authentication keep_alive keepAlive sse_read_timeout include_tags exclude_tags
	owner prompts resources options keepAliveInterval openapi proxy passthroughHeaders
	maxRestarts restartOnExit restartDelay connectionTimeout requestTimeout
	display_name bundled available_tools iconPath chatMenu serverInstructions customUserVars startup initTimeout requiresOAuth apiKey
	requestOptions lifecycle directTools exposeResources bearerToken bearerTokenEnv tokenCacheDir clientName logging debug
	managedBy metadata name title displayName description note notes icon icons id author homepage repository license category
`)

// othersInOAuth are keys of "oauth" that other clients know, and that have no effect here: the
// endpoints are found out, and a login is made when it is needed.
var othersInOAuth = words(`
	enabled authorizationUrl tokenUrl registrationUrl issuer audiences tokenParamName
`)

// othersInFiles are keys that stand next to the servers in files that are about servers.
var othersInFiles = words(`
	inputs sandbox name version description author license homepage repository keywords metadata
`)

// generalKeys are keys of files in which other clients keep all their settings, and of
// plug-ins. Such a file may have any other key too.
var generalKeys = words(`
	globalShortcut preferences scale locale darkMode userThemeMode isUsingBuiltInNodeForMcp isDxtAutoUpdatesEnabled hasTrackedInitialActivation
	numStartups installMethod autoUpdates tipsHistory projects oauthAccount firstStartTime userID hasCompletedOnboarding cachedChangelog
	permissions hooks statusLine enabledPlugins enabledMcpjsonServers disabledMcpjsonServers enableAllProjectMcpServers
	general ui ide privacy context security telemetry advanced experimental selectedAuthType theme coreTools checkpointing autoAccept contextFileName
	allowMCPServers excludeMCPServers extensions
	context_servers languages lsp agent agents agent_servers features vim_mode buffer_font_size ui_font_size base_keymap
	users groups systemConfig routing
	commands skills providers models allowedTools toolAliases toolsSettings useLegacyMcpJson prompt
`)

func words(text string) []string { return strings.Fields(text) }

// isComment reports whether a key is one that people use for comments, or a program for its
// own notes.
func isComment(key string) bool {
	return key == "" || key == "comment" || key[0] == '_' || key[0] == '$' || key[0] == '#' || strings.HasPrefix(key, "//") || strings.HasPrefix(key, "x-")
}

// ofOthers reports whether another client knows the key where it stands.
func (d *checker) ofOthers(m hujson.ObjectMember) bool {
	key := jsonc.Key(m)
	if isComment(key) {
		return true
	}
	switch d.level {
	case "":
		return strings.Contains(key, ".") || slices.Contains(othersInFiles, key) || slices.Contains(generalKeys, key)
	case atEntry:
		return slices.Contains(othersInEntries, key)
	case atOAuth:
		return slices.Contains(othersInOAuth, key) || !similarAt(atOAuth, key)
	case atTools:
		// Some have an object for each tool, by its name.
		return m.Value.Value.Kind() == '{' && !similarAt(atTools, key)
	}
	return false
}

// similarAt reports whether a key is probably a misspelled one of the level.
func similarAt(level, key string) bool {
	_, ok := keys.Nearest(key, nodeAt(level).Keys)
	return ok
}

// isGeneral reports whether a file is one with all settings of another client, or a
// plug-in's.
func isGeneral(root *hujson.Object) bool {
	return slices.ContainsFunc(root.Members, func(m hujson.ObjectMember) bool {
		key := jsonc.Key(m)
		return slices.Contains(generalKeys, key) || strings.Contains(key, ".")
	})
}

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
