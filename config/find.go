package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Find says which files to load: those of the --config flags, else .mcp.json in
// the working directory, else metarouter/mcp.json in the user's config folder.
//
// named is false for a .mcp.json that was merely found. It may be a stranger's
// and runs commands, so it wants Trusted before it is used.
func Find(flagPaths []string) (paths []string, named bool, err error) {
	if len(flagPaths) > 0 {
		for _, path := range flagPaths {
			path, err := filepath.Abs(path)
			if err != nil {
				return nil, false, fmt.Errorf("find config: %w", err)
			}
			paths = append(paths, path)
		}
		return paths, true, nil
	}
	project, err := filepath.Abs(".mcp.json")
	if err != nil {
		return nil, false, fmt.Errorf("find config: %w", err)
	}
	if exists(project) {
		return []string{project}, false, nil
	}
	own, err := Own()
	if err != nil {
		return nil, false, fmt.Errorf("no %s, and %w", project, err)
	}
	if exists(own) {
		return []string{own}, true, nil
	}
	return nil, false, fmt.Errorf(`no config: create %s or %s with {"mcpServers": {"a name": {"command": "…", "args": ["…"]}}}, or name a file with --config`, project, own)
}

// Own is the absolute path of the user's own file, which need not be there.
func Own() (string, error) {
	folder, err := os.UserConfigDir()
	if err != nil {
		return "", fmt.Errorf("no config folder of yours: %w; name a file with --config", err)
	}
	return filepath.Join(folder, "metarouter", "mcp.json"), nil
}

// exists is true for what can't be looked at too: Load says why.
func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}
