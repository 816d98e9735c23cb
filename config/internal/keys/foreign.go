package keys

import (
	"slices"
	"strings"

	"github.com/tailscale/hujson"

	"github.com/mcp-metarouter/metarouter/internal/jsonc"
)

// inEntries are keys of entries that other clients and routers know, and that have no effect here.
// Keys with a counterpart here are not among them, so that people learn of the counterpart.
var inEntries = strings.Fields(`
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

// inOAuth are keys of "oauth" that other clients know, and that have no effect here: the router
// finds the endpoints, and begins a login when it is needed.
var inOAuth = strings.Fields(`
	enabled authorizationUrl tokenUrl registrationUrl issuer audiences tokenParamName
`)

// inFiles are keys that stand next to the servers in files that are about servers.
var inFiles = strings.Fields(`
	inputs sandbox name version description author license homepage repository keywords metadata
`)

// inGeneral are keys of files in which other clients keep all their settings, and of
// plug-ins. Such a file may have any other key too.
var inGeneral = strings.Fields(`
	globalShortcut preferences scale locale darkMode userThemeMode isUsingBuiltInNodeForMcp isDxtAutoUpdatesEnabled hasTrackedInitialActivation
	numStartups installMethod autoUpdates tipsHistory projects oauthAccount firstStartTime userID hasCompletedOnboarding cachedChangelog
	permissions hooks statusLine enabledPlugins enabledMcpjsonServers disabledMcpjsonServers enableAllProjectMcpServers
	general ui ide privacy context security telemetry advanced experimental selectedAuthType theme coreTools checkpointing autoAccept contextFileName
	allowMCPServers excludeMCPServers extensions
	context_servers languages lsp agent agents agent_servers features vim_mode buffer_font_size ui_font_size base_keymap
	users groups systemConfig routing
	commands skills providers models allowedTools toolAliases toolsSettings useLegacyMcpJson prompt
`)

// IsComment reports whether people use a key for comments, or a program for its own notes.
func IsComment(key string) bool {
	return key == "" || key == "comment" || key[0] == '_' || key[0] == '$' || key[0] == '#' || strings.HasPrefix(key, "//") || strings.HasPrefix(key, "x-")
}

// MayBeNull reports whether other clients write null for a key of an entry that is absent.
func MayBeNull(key string) bool {
	return slices.Contains([]string{"command", "args", "env", "cwd", "type", "url", "headers", "timeout", "oauth"}, key)
}

// IsForeign reports whether another client knows a key at a level, or people use it for comments. isObject says that the key's value is
// an object.
func (t Table) IsForeign(level, key string, isObject bool) bool {
	if IsComment(key) {
		return true
	}
	switch level {
	case "":
		return slices.Contains(inFiles, key) || isGeneral(key)
	case Entry:
		return slices.Contains(inEntries, key)
	case OAuth:
		return slices.Contains(inOAuth, key) || !t.isMisspelled(level, key)
	case Tools: // some have an object for each tool, by its name
		return isObject && !t.isMisspelled(level, key)
	}
	return false
}

func isGeneral(key string) bool { return strings.Contains(key, ".") || slices.Contains(inGeneral, key) }

// IsGeneral reports whether a file has all settings of another client, or is a plug-in's.
func IsGeneral(root *hujson.Object) bool {
	return slices.ContainsFunc(root.Members, func(m hujson.ObjectMember) bool { return isGeneral(jsonc.Key(m)) })
}
