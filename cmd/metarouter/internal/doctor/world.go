package doctor

import (
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

// A World is what Examine may look at besides the case.
type World interface {
	Has(program string) bool         // reports whether the program would be found as a command
	Elsewhere(program string) string // the program's path outside of the PATH and of the supervisor's folders; "" if not found
	Like(program string) string      // an existing program with a similar name; "" if not found
	IsFolder(path string) bool
	KeyFile() string   // the file with the key of the secrets; "" if a keyring has it, or there are none
	LoginsKey() string // the same for the logins at remote servers
	Folder() string    // the working folder of this process
	DataFolder() error // why the data folder can't be written, or a [*safefile.Exposed]; nil if all is well, or nothing is kept
}

// System is the [World] of this process.
type System struct {
	DataDir string // "" keeps nothing
}

// KeyFile implements [World].
func (System) KeyFile() string {
	own, err := configpath.Own()
	if err != nil {
		return ""
	}
	return vault.Of(own).KeyFile()
}

// LoginsKey implements [World].
func (System) LoginsKey() string {
	own, err := configpath.Own()
	if err != nil {
		return ""
	}
	return vault.Logins(filepath.Dir(own)).KeyFile()
}

// Has implements [World].
func (System) Has(name string) bool {
	_, err := program.Look(name)
	return err == nil
}

// rarePlaces are folders with programs that are not on the PATH: those of version
// managers that are not activated, and of rare package managers. "~" is the home folder.
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

// Like implements [World]. It prefers programs that usually start servers to others.
func (w System) Like(name string) string {
	usual := []string{"npx", "npm", "node", "uvx", "uv", "python", "python3", "docker", "podman", "bun", "bunx", "deno", "pnpm", "yarn", "pipx", "go"}
	if like, ok := typo.Nearest(name, usual); ok && w.Has(like) {
		return like
	}
	if len(name) < 5 { // shorter names are similar to too many others
		return ""
	}
	var all []string
	for _, folder := range program.Folders(os.Getenv("PATH")) {
		entries, _ := os.ReadDir(folder)
		for _, e := range entries {
			all = append(all, e.Name())
		}
	}
	if like, ok := typo.Nearest(name, all); ok && w.Has(like) {
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
	if err := os.Remove(probe.Name()); err != nil {
		return err
	}
	return safefile.OwnersOnly(w.DataDir)
}
