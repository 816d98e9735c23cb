package supervisor

import (
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
)

const (
	// markVariable holds a random mark in the environment of every process that
	// a server consists of, wherever it goes.
	markVariable = "METAROUTER_SPAWN"
	// DepthVariable is set in the environment of every server. A router that
	// finds it set was started by a router, and must not start.
	DepthVariable = "METAROUTER_DEPTH"

	// TokenVariable holds the token that clients must bear over HTTP. No server
	// gets it.
	TokenVariable = "METAROUTER_TOKEN"
)

// safe names the variables of ours that every server gets: what programs need to
// find their files and the network, and no secret of another program. A name
// with a star at its end stands for all that begin so.
var safe = []string{
	"HOME", "USER", "LOGNAME", "SHELL", "TERM", "LANG", "LC_*", "TZ",
	"TMPDIR", "TMP", "TEMP", "XDG_*",
	"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY",
	"SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE",
	"NPM_CONFIG_*", "UV_*",
	"DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", // where a browser shows its window
}

var safeWindows = []string{
	"SYSTEMROOT", "SYSTEMDRIVE", "WINDIR", "COMSPEC", "PATHEXT", "OS", "PUBLIC",
	"APPDATA", "LOCALAPPDATA", "PROGRAMDATA", "PROGRAMFILES", "PROGRAMFILES(X86)", "PROGRAMW6432",
	"COMMONPROGRAMFILES", "USERPROFILE", "USERNAME", "USERDOMAIN", "HOMEDRIVE", "HOMEPATH",
	"PROCESSOR_ARCHITECTURE", "NUMBER_OF_PROCESSORS",
}

// environ returns a server's environment: of ours, the safe variables and those
// whose names inherit lists ("*": all), then path as PATH, which has own's in it,
// then the rest of own.
func environ(ours, inherit []string, path string, own map[string]string) []string {
	allowed := append(slices.Clone(safe), inherit...)
	if runtime.GOOS == "windows" {
		allowed = append(allowed, safeWindows...)
	}
	env := []string{DepthVariable + "=1"}
	for _, variable := range ours {
		name, _, _ := strings.Cut(variable, "=")
		if _, ok := own[name]; ok || reserved(name) {
			continue
		}
		if slices.ContainsFunc(allowed, func(pattern string) bool { return matches(pattern, name) }) {
			env = append(env, variable)
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

// Inherited returns the variables of ours that a server with this inheritEnv gets,
// and the PATH that it is searched in.
func Inherited(ours, inherit []string) []string {
	return environ(ours, inherit, os.Getenv("PATH"), nil)
}

func reserved(name string) bool {
	return name == markVariable || name == DepthVariable || name == TokenVariable || strings.EqualFold(name, "PATH")
}

// matches compares without regard to case: proxy variables are written both
// ways, and Windows does not distinguish.
func matches(pattern, name string) bool {
	if prefix, ok := strings.CutSuffix(pattern, "*"); ok {
		return len(name) >= len(prefix) && strings.EqualFold(name[:len(prefix)], prefix)
	}
	return strings.EqualFold(pattern, name)
}
