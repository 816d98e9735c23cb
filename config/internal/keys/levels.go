package keys

import (
	"maps"
	"slices"
	"strings"

	"github.com/mcp-metarouter/metarouter/internal/prose"
)

// A level is the place of an object in a file: "" is the file itself, and others are the keys that
// lead to the object, with dots between them. "*" stands for any key. The path of a key is the level
// of the object that has it, and the key.
const (
	Entry   = "mcpServers.*" // of a server
	Tools   = Entry + ".tools"
	OAuth   = Entry + ".oauth"
	Router  = "metarouter"
	Profile = "metarouter.profiles.*"
)

// Below returns the path of a key in the object at a level.
func Below(level, key string) string {
	if level == "" {
		return key
	}
	return level + "." + key
}

// Last returns the last key of a path.
func Last(path string) string { return path[strings.LastIndexByte(path, '.')+1:] }

// Elsewhere returns the level nearest to a level at which a key may stand: at most two steps away, or that of a
// profile. ok is false if the key may stand nowhere so near.
func (t Table) Elsewhere(from, key string) (nearest string, ok bool) {
	const most = 2
	least := most + 1
	for _, level := range append([]string{Router, Profile + ".tools"}, slices.Sorted(maps.Keys(t))...) { // a setting for all comes first
		if level == from || !t.Knows(level, key) {
			continue
		}
		if n := Steps(from, level); n < least || !ok && level == Profile {
			nearest, least, ok = level, n, true
		}
	}
	return nearest, ok
}

// Steps counts the objects between two levels. An entry is one step below the file.
func Steps(from, to string) int {
	a, b := segments(from), segments(to)
	same := 0
	for same < len(a) && same < len(b) && a[same] == b[same] {
		same++
	}
	return len(a) + len(b) - 2*same
}

func segments(level string) []string {
	if level == "" {
		return nil
	}
	return strings.Split(strings.Replace(level, Entry, "entry", 1), ".")
}

// meant has the keys that are meant by frequent mistakes.
var meant = map[string]string{
	"cmd": "command", "executable": "command", "program": "command",
	"arguments": "args", "argv": "args", "params": "args",
	"environment": "env", "environmentVariables": "env", "envVars": "env",
	"uri": "url", "endpoint": "url", "baseUrl": "url",
	"workingDirectory": "cwd", "workdir": "cwd", "directory": "cwd",
	"timeoutMs": "timeout", "startupTimeout": "startTimeout",
	"port": "addr", "address": "addr", "listen": "addr", "certificate": "tlsCert", "certFile": "tlsCert", "keyFile": "tlsKey",
	"logFile": "accessLog", "exclude": "deny", "include": "allow",
}

// Nearest returns the known key that was probably meant by an unknown one.
func Nearest(key string, known []string) (string, bool) {
	words := slices.Clone(known)
	for spelling, means := range meant {
		if slices.Contains(known, means) {
			words = append(words, spelling)
		}
	}
	word, ok := prose.Nearest(key, words)
	if !slices.Contains(known, word) {
		word = meant[word]
	}
	return word, ok
}

// isMisspelled reports whether a key is probably another one of the level.
func (t Table) isMisspelled(level, key string) bool {
	_, ok := Nearest(key, t.At(level).Keys)
	return ok
}
