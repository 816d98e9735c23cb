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

// ThisSystem returns the system that this process runs on.
func ThisSystem() (System, error) {
	home, err := os.UserHomeDir()
	if err != nil {
		return System{}, fmt.Errorf("find your home folder: %w; name the client's file with --file", err)
	}
	glob := func(pattern string) []string {
		found, _ := filepath.Glob(pattern)
		return found
	}
	return System{OS: runtime.GOOS, Home: home, Env: os.Getenv, Glob: glob}, nil
}

// ReadOurs reads our files that exist and are not empty.
func ReadOurs(paths []string) (Ours, error) {
	var o Ours
	var existing []string
	for _, path := range paths {
		data, err := safefile.Read(path, maxFile)
		if errors.Is(err, fs.ErrNotExist) || err == nil && strings.TrimSpace(string(data)) == "" {
			continue
		}
		existing = append(existing, path) // if it can't be read, config.Load says why
		o.Files = append(o.Files, Source{Path: path, Data: data})
	}
	var err error
	o.Config, err = config.Load(existing...)
	return o, err
}

// Exists reports whether there is a file, a folder or a link at a path.
func Exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// OwnProgram returns the command by which a client can start this program of a version
// later, with the arguments that come before the program's own: a link on PATH that leads
// to it, since package managers move the target of the link, else the program's own path.
// npm may empty its cache, so a program in it is started by npx.
func OwnProgram(version string) (command string, before []string, err error) {
	exe, err := os.Executable()
	if err != nil {
		return "", nil, fmt.Errorf("find this program: %w", err)
	}
	for _, folder := range strings.Split(filepath.ToSlash(exe), "/") {
		switch {
		case folder == "_npx":
			command, before = byNPX(runtime.GOOS, version)
			return command, before, nil
		case strings.HasPrefix(folder, "go-build"):
			return "", nil, errors.New("this program was built by 'go run' and will be gone; run 'go install github.com/mcp-metarouter/metarouter/cmd/metarouter', then 'metarouter install' again")
		}
	}
	self, err := os.Stat(exe)
	if err != nil {
		return "", nil, fmt.Errorf("find this program: %w", err)
	}
	link, _ := program.Look("metarouter")
	if target, _ := os.Stat(link); os.SameFile(self, target) {
		return link, nil, nil
	}
	return exe, nil, nil
}

// byNPX returns the command by which a client starts a version from npm. On Windows, npx
// is a script, which clients start by the shell.
func byNPX(system, version string) (command string, args []string) {
	args = []string{"-y", EntryName + "@" + version}
	if system == "windows" {
		return "cmd", append([]string{"/c", "npx"}, args...)
	}
	return "npx", args
}
