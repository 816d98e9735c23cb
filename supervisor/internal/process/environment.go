package process

import (
	"maps"
	"runtime"
	"slices"
	"strings"
)

const (
	// MarkVariable holds a random mark in the environment of every process of a
	// server, also of those that have left its process group.
	MarkVariable = "METAROUTER_SPAWN"
	// DepthVariable is set in the environment of every server. A router that
	// finds it set was started by a router, and must not start.
	DepthVariable = "METAROUTER_DEPTH"

	// TokenVariable holds the token that clients must send over HTTP. No server
	// gets it.
	TokenVariable = "METAROUTER_TOKEN"
)

// safe names the router's variables that every server gets: programs need them to
// find their files and the network, and they hold no secret of another program. A
// star at the end stands for any text.
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

// Environment returns a server's environment: of ours, which is the router's, the
// safe variables and those whose names inherit lists ("*": all); then path as PATH;
// then own, the variables of the server's entry, but for PATH.
func Environment(ours, inherit []string, path string, own map[string]string) []string {
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

func reserved(name string) bool {
	return name == MarkVariable || name == DepthVariable || name == TokenVariable || strings.EqualFold(name, "PATH")
}

// matches compares without regard to case: proxy variables are written both
// ways, and Windows does not distinguish.
func matches(pattern, name string) bool {
	if prefix, ok := strings.CutSuffix(pattern, "*"); ok {
		return len(name) >= len(prefix) && strings.EqualFold(name[:len(prefix)], prefix)
	}
	return strings.EqualFold(pattern, name)
}
