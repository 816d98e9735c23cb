package clients

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/program"
	"github.com/mcp-metarouter/metarouter/internal/safefile"
)

// ThisPlace returns the system that this process runs on.
func ThisPlace() (Place, error) {
	home, err := os.UserHomeDir()
	if err != nil {
		return Place{}, fmt.Errorf("find your home folder: %w; name the client's file with --file", err)
	}
	glob := func(pattern string) []string {
		found, _ := filepath.Glob(pattern)
		return found
	}
	return Place{OS: runtime.GOOS, Home: home, Env: os.Getenv, Glob: glob}, nil
}

// ReadOurs reads those of our files that exist and are not empty.
func ReadOurs(paths []string) (Ours, error) {
	var o Ours
	var existing []string
	for _, path := range paths {
		data, err := safefile.Read(path, maxFile)
		if errors.Is(err, fs.ErrNotExist) || err == nil && strings.TrimSpace(string(data)) == "" {
			continue
		}
		if err != nil {
			return o, fmt.Errorf("read config: %w", err)
		}
		existing = append(existing, path)
		o.Files = append(o.Files, Source{Path: path, Data: data})
	}
	var err error
	o.Config, err = config.Load(existing...)
	return o, err
}

// FirstExisting returns the first of the paths that exists, or "" if none does.
func FirstExisting(paths ...string) string {
	for _, path := range paths {
		if _, err := os.Lstat(path); err == nil {
			return path
		}
	}
	return ""
}

// OwnProgram returns the absolute path by which a client can start this program later: a
// link on PATH that leads to it, since package managers move what the link leads to,
// else the program's own path.
func OwnProgram() (string, error) {
	exe, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find this program: %w", err)
	}
	for _, folder := range strings.Split(filepath.ToSlash(exe), "/") {
		if strings.HasPrefix(folder, "go-build") {
			return "", errors.New("this program was built by 'go run' and will be gone; run 'go install github.com/mcp-metarouter/metarouter/cmd/metarouter', then 'metarouter install' again")
		}
	}
	self, err := os.Stat(exe)
	if err != nil {
		return "", fmt.Errorf("find this program: %w", err)
	}
	if link, err := program.Look("metarouter"); err == nil {
		target, err := os.Stat(link)
		if err == nil && os.SameFile(self, target) {
			return link, nil
		}
	}
	return exe, nil
}
