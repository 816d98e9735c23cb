package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mcp-metarouter/metarouter/internal/commandline"
)

// startsRouter reports whether the command, or what it wraps, would start
// another one of us. What hides deeper is for METAROUTER_DEPTH to find.
func (e environment) startsRouter(command string, args []string, cwd string) bool {
	for command, args := range commandline.All(command, args) {
		switch {
		case commandline.Name(command) == "metarouter":
			if rest := commandline.AfterOptions(args, []string{"--config", "--data", "--log-level"}); len(rest) == 0 || rest[0] != "builtin" {
				return true
			}
		case slices.Contains(args, "serve") && e.isOurselves(command, cwd):
			return true // under another name this may be a program that embeds us, so only the word itself counts
		}
	}
	return false
}

// isOurselves reports whether the command is our own executable, by whatever link.
func (e environment) isOurselves(command, cwd string) bool {
	if e.executable == "" {
		return false
	}
	if !strings.ContainsAny(command, `/\`) {
		found, err := e.lookPath(command)
		if err != nil {
			return false
		}
		command = found
	} else if !filepath.IsAbs(command) {
		command = filepath.Join(cwd, command)
	}
	theirs, err := os.Stat(command)
	if err != nil {
		return false
	}
	ours, err := os.Stat(e.executable)
	return err == nil && os.SameFile(theirs, ours)
}
