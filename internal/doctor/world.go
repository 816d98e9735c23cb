package doctor

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mcp-metarouter/metarouter/config"
)

// A World is what may be looked at beside the case.
type World interface {
	Has(program string) bool         // whether it would be found as a command
	Elsewhere(program string) string // where it is, outside of the PATH and of where the supervisor looks; "" if nowhere
	Like(program string) string      // a program that is there and has a name like that; "" if there is none
	IsFolder(path string) bool
	Folder() string    // in which this process runs
	DataFolder() error // why nothing can be kept in the data folder; nil if it can, or nothing shall
}

// System is the world as it is.
type System struct {
	DataDir string // "" keeps nothing
}

// Has implements [World].
func (System) Has(program string) bool {
	_, err := exec.LookPath(program)
	return err == nil
}

// rarePlaces are where programs are that no PATH names: what version managers have
// that are not activated, and package managers that few use. "~" is the home folder.
var rarePlaces = []string{
	"~/.local/share/mise/installs/*/*/bin", "~/.asdf/installs/*/*/bin", "~/.local/share/fnm/node-versions/*/installation/bin",
	"~/Library/Application Support/fnm/node-versions/*/installation/bin", "~/.pyenv/versions/*/bin", "~/.rbenv/shims",
	"~/.npm-global/bin", "~/.local/share/pnpm", "~/Library/pnpm", "~/.yarn/bin", "~/.rye/shims", "~/.nix-profile/bin",
	"~/miniconda3/bin", "~/anaconda3/bin", "~/.proto/shims", "~/n/bin",
	"/nix/var/nix/profiles/default/bin", "/run/current-system/sw/bin", "/opt/local/bin", "/usr/local/go/bin",
	"/Applications/Docker.app/Contents/Resources/bin", "/Library/Frameworks/Python.framework/Versions/*/bin", "/var/lib/flatpak/exports/bin",
}

// Elsewhere implements [World].
func (System) Elsewhere(program string) string {
	home, _ := os.UserHomeDir()
	for _, place := range rarePlaces {
		if rest, ok := strings.CutPrefix(place, "~"); ok {
			place = home + rest
		}
		found, _ := filepath.Glob(filepath.Join(place, program))
		for _, path := range slices.Backward(found) {
			if path, err := exec.LookPath(path); err == nil {
				return path
			}
		}
	}
	return ""
}

// Like implements [World]: one of those that servers are usually started with, else
// any on the PATH.
func (w System) Like(program string) string {
	usual := []string{"npx", "npm", "node", "uvx", "uv", "python", "python3", "docker", "podman", "bun", "bunx", "deno", "pnpm", "yarn", "pipx", "go"}
	if like, ok := config.Similar(program, usual); ok && w.Has(like) {
		return like
	}
	const least = 5 // letters; too much is like shorter names
	if len(program) < least {
		return ""
	}
	var all []string
	for _, folder := range filepath.SplitList(os.Getenv("PATH")) {
		entries, _ := os.ReadDir(folder)
		for _, e := range entries {
			all = append(all, e.Name())
		}
	}
	like, ok := config.Similar(program, all)
	if ok && w.Has(like) {
		return like
	}
	return ""
}

// IsFolder implements [World].
func (System) IsFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// Folder implements [World].
func (System) Folder() string {
	folder, err := os.Getwd()
	if err != nil {
		return "unknown"
	}
	return folder
}

// DataFolder implements [World].
func (w System) DataFolder() error {
	if w.DataDir == "" {
		return nil
	}
	err := os.MkdirAll(w.DataDir, 0o700)
	if err != nil {
		return err
	}
	probe, err := os.CreateTemp(w.DataDir, ".doctor")
	if err != nil {
		return err
	}
	probe.Close()
	return os.Remove(probe.Name())
}
