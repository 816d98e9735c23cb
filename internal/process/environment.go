package process

import (
	"maps"
	"runtime"
	"slices"
	"strings"

	"github.com/mcp-metarouter/metarouter/internal/commandline"
	"github.com/mcp-metarouter/metarouter/internal/keeper"
	"github.com/mcp-metarouter/metarouter/internal/lazy"
	"github.com/mcp-metarouter/metarouter/internal/secret"
)

const (
	// MarkVariable holds a random mark in the environment of every process of a
	// server, also of those that have left its process group.
	MarkVariable = keeper.MarkVariable
	// DepthVariable is set in the environment of every server. A router that
	// finds it set was started by a router, and must not start.
	DepthVariable = "METAROUTER_DEPTH"
	// openVariable holds the folder of an opener in the environment of every server.
	openVariable = "METAROUTER_OPEN"
)

// safe names the router's variables that every server gets: programs need them to
// find their files and the network, and they hold no secret of another program. A
// star at the end stands for any text.
var safe = []string{
	"HOME", "USER", "LOGNAME", "SHELL", "TERM", "LANG", "LC_*", "TZ",
	"TMPDIR", "TMP", "TEMP", "XDG_SESSION_ID", "XDG_*",
	"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY",
	"SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE",
	"DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", // where a browser shows its window
}

var safeWindows = []string{
	"SYSTEMROOT", "SYSTEMDRIVE", "WINDIR", "COMSPEC", "PATHEXT", "OS", "PUBLIC",
	"APPDATA", "LOCALAPPDATA", "PROGRAMDATA", "PROGRAMFILES", "PROGRAMFILES(X86)", "PROGRAMW6432",
	"COMMONPROGRAMFILES", "USERPROFILE", "USERNAME", "USERDOMAIN", "HOMEDRIVE", "HOMEPATH",
	"PROCESSOR_ARCHITECTURE", "NUMBER_OF_PROCESSORS",
}

// runners are programs that fetch packages, with the variables that say from where.
var runners = map[string][]string{
	"NPM_CONFIG_*": {"npx", "npm", "node", "pnpm", "pnpx", "yarn", "bun", "bunx"},
	"UV_*":         {"uvx", "uv"},
}

// ofTerminals are variables that a star in inheritEnv matches, and in which it does not matter that clients differ.
var ofTerminals = []string{"PWD", "OLDPWD", "SHLVL", "_", "TERM*", "COLORTERM", "WINDOWID", "SSH_*", "XDG_SESSION_*", "GPG_TTY", "TMUX*", "STY", "INVOCATION_ID", "JOURNAL_STREAM"}

// InheritedNames returns the names of variables that inherit names; see [Environment].
func InheritedNames(names, inherit []string) []string {
	return slices.DeleteFunc(names, func(name string) bool {
		named := slices.ContainsFunc(inherit, func(pattern string) bool { return strings.EqualFold(pattern, name) })
		return reserved(name) || !named && (!passes(inherit, name) || passes(ofTerminals, name))
	})
}

// Environment returns the environment of a server with this command line: of ours,
// which is the router's, the safe variables, and the variables that inherit names; then
// path as PATH; then own, the variables of the server's entry, but for PATH.
//
// A star in inherit stands for any text. It matches no name that looks like a secret's:
// such a variable must be named. The user name and password in the URL of a safe
// variable, as of a proxy, are dropped unless inherit names the variable.
func Environment(ours, inherit []string, path string, own map[string]string, command []string) []string {
	allowed := safe
	if runtime.GOOS == "windows" {
		allowed = slices.Concat(safe, safeWindows)
	}
	for pattern, programs := range runners {
		if runs(command, programs) {
			allowed = append(slices.Clip(allowed), pattern)
		}
	}
	env := []string{DepthVariable + "=1"}
	for _, variable := range ours {
		name, value, _ := strings.Cut(variable, "=")
		if _, ok := own[name]; ok || reserved(name) {
			continue
		}
		switch {
		case slices.ContainsFunc(inherit, func(pattern string) bool { return strings.EqualFold(pattern, name) }):
			env = append(env, variable)
		case passes(allowed, name), passes(inherit, name):
			env = append(env, name+"="+withoutPassword(name, value))
		}
	}
	env = append(env, "PATH="+path)
	for _, name := range slices.Sorted(maps.Keys(own)) {
		if !reserved(name) {
			env = append(env, name+"="+own[name])
		}
	}
	return env
}

func reserved(name string) bool {
	return name == MarkVariable || name == DepthVariable || name == openVariable || name == secret.TokenVariable || strings.EqualFold(name, "PATH")
}

// passes reports whether the name is one of the patterns, or matches one with a star
// and looks like no secret's. It compares without regard to case: proxy variables are
// written both ways, and Windows does not distinguish.
func passes(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		prefix, star := strings.CutSuffix(pattern, "*")
		if !star {
			return strings.EqualFold(pattern, name)
		}
		return len(name) >= len(prefix) && strings.EqualFold(name[:len(prefix)], prefix) && !isSecret(name)
	})
}

// isSecret reports whether the name is a secret's. The names of folders are not.
func isSecret(name string) bool {
	return secret.Named(name) && name != "PWD" && name != "OLDPWD"
}

// runs reports whether one of the programs is named in the command line, be it as an
// argument of another program, such as "cmd /c npx" or a shell.
func runs(command, programs []string) bool {
	return slices.ContainsFunc(command, func(argument string) bool {
		return slices.ContainsFunc(strings.Fields(argument), func(word string) bool {
			return slices.Contains(programs, commandline.Name(word))
		})
	})
}

var (
	userinfo      = lazy.Regexp(`(?i)(https?://)[^\s/?#]*@`)
	proxyUserinfo = lazy.Regexp(`^([a-zA-Z0-9+.-]+://)?.*@`) // a proxy needs no scheme
)

// withoutPassword returns the value without the user name and password of a URL in it.
func withoutPassword(name, value string) string {
	pattern := userinfo
	if strings.HasSuffix(strings.ToUpper(name), "_PROXY") {
		pattern = proxyUserinfo
	}
	return pattern().ReplaceAllString(value, "${1}")
}
