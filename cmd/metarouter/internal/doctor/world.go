package doctor

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mcp-metarouter/metarouter/internal/configpath"
	"github.com/mcp-metarouter/metarouter/internal/program"
	"github.com/mcp-metarouter/metarouter/internal/safefile"
	"github.com/mcp-metarouter/metarouter/internal/typo"
	"github.com/mcp-metarouter/metarouter/internal/vault"
)

// A World has the programs and files that Examine may look at.
type World interface {
	Elsewhere(program string) string // the program's path outside of the PATH and of the supervisor's folders; "" if not found
	Like(program string) string      // an existing program with a similar name; "" if not found
	IsFolder(path string) bool
	KeyFiles() (secrets, logins string) // the files with the keys of the secrets and of the logins at remote servers; "" if a keyring has them, or without any
	Folder() string                     // the working folder of this process
	DataFolder() error                  // why the data folder can't be written, or a [*safefile.Exposed]; nil if all is well, or nothing is kept
}

// System is the [World] of this process.
type System struct {
	DataDir string // "" keeps nothing
}

func (System) KeyFiles() (secrets, logins string) {
	own, err := configpath.Own()
	if err != nil {
		return "", ""
	}
	return vault.Of(own).KeyFile(), vault.Logins(filepath.Dir(own)).KeyFile()
}

// rarePlaces are folders with programs that are not on the PATH: of version managers that are not
// activated, and of rare package managers. "~" is the home folder.
var rarePlaces = []string{
	"~/.local/share/mise/installs/*/*/bin", "~/.asdf/installs/*/*/bin", "~/.local/share/fnm/node-versions/*/installation/bin",
	"~/Library/Application Support/fnm/node-versions/*/installation/bin", "~/.pyenv/versions/*/bin", "~/.rbenv/shims",
	"~/.npm-global/bin", "~/.local/share/pnpm", "~/Library/pnpm", "~/.yarn/bin", "~/.rye/shims", "~/.nix-profile/bin",
	"~/miniconda3/bin", "~/anaconda3/bin", "~/.proto/shims", "~/n/bin",
	"/nix/var/nix/profiles/default/bin", "/run/current-system/sw/bin", "/opt/local/bin", "/usr/local/go/bin",
	"/Applications/Docker.app/Contents/Resources/bin", "/Library/Frameworks/Python.framework/Versions/*/bin", "/var/lib/flatpak/exports/bin",
}

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

// Like prefers programs that usually start servers to others.
func (System) Like(name string) string {
	find := func(among []string) string {
		if like, ok := typo.Nearest(name, among); ok {
			if _, err := program.Look(like); err == nil {
				return like
			}
		}
		return ""
	}
	usual := []string{"npx", "npm", "node", "uvx", "uv", "python", "python3", "docker", "podman", "bun", "bunx", "deno", "pnpm", "yarn", "pipx", "go"}
	if like := find(usual); like != "" || len(name) < 5 { // shorter names are similar to too many others
		return like
	}
	var all []string
	for _, folder := range program.Folders(os.Getenv("PATH")) {
		entries, _ := os.ReadDir(folder)
		for _, e := range entries {
			all = append(all, e.Name())
		}
	}
	return find(all)
}

func (System) IsFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

func (System) Folder() string {
	folder, err := os.Getwd()
	if err != nil {
		return "unknown"
	}
	return folder
}

func (w System) DataFolder() error {
	if w.DataDir == "" {
		return nil
	}
	if err := os.MkdirAll(w.DataDir, 0o700); err != nil {
		return err
	}
	probe, err := os.CreateTemp(w.DataDir, ".doctor")
	if err != nil {
		return err
	}
	if err := errors.Join(probe.Close(), os.Remove(probe.Name())); err != nil {
		return err
	}
	return safefile.OwnersOnly(w.DataDir)
}
