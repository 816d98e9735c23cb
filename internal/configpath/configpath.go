// Package configpath finds the files of the configuration. It is a leaf.
package configpath

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Find returns the absolute paths of the files to load: the files of the --config flags, else .mcp.json
// in the working directory, else metarouter/mcp.json in the user's configuration folder.
//
// named is false for a .mcp.json in the working directory that no flag names. A stranger may have
// written it, and it runs commands, so it needs a person's approval: see trustfile.Text.Trusted.
//
// The error is [fs.ErrNotExist] if no file exists.
func Find(flags []string) (paths []string, named bool, err error) {
	if len(flags) > 0 {
		for _, path := range flags {
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
	return nil, false, fmt.Errorf("find config: %s and %s: %w", project, own, fs.ErrNotExist)
}

// Own returns the absolute path of the user's own file, which may not exist.
func Own() (string, error) {
	folder, err := os.UserConfigDir()
	if err != nil {
		return "", fmt.Errorf("the user's config folder is not known: %w; name a file with --config", err)
	}
	return filepath.Join(folder, "metarouter", "mcp.json"), nil
}

// NodeKey returns the absolute path of the private key by which routers of other machines know
// the user's routers. The file may not exist.
func NodeKey() (string, error) {
	own, err := Own()
	if err != nil {
		return "", err
	}
	return filepath.Join(filepath.Dir(own), "node.nk"), nil
}

// exists is also true for a file that can't be examined: its reader reports the reason.
func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}
