package config

import (
	"slices"

	"github.com/mcp-metarouter/metarouter/internal/typo"
)

// meant maps frequent mistakes for a key to the key. It counts where the key is known.
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

// nearest returns the known key that was probably meant by an unknown one.
func nearest(key string, known []string) (string, bool) {
	words := slices.Clone(known)
	for spelling, means := range meant {
		if slices.Contains(known, means) {
			words = append(words, spelling)
		}
	}
	word, ok := typo.Nearest(key, words)
	if !slices.Contains(known, word) {
		word = meant[word]
	}
	return word, ok
}
