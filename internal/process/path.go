package process

import (
	"cmp"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/mod/semver"

	"github.com/mcp-metarouter/metarouter/internal/lazy"
	"github.com/mcp-metarouter/metarouter/internal/program"
)

// Find returns the executable that command names, and the PATH for it: own, the
// server's, if not "", else the router's, with the folder in which the command was
// found in front if PATH lacks it. Relative folders of PATH are dropped. A relative
// command with a separator starts from the folder dir. The error is a [*MissingError].
//
// Programs may be started with a short PATH, without the folders that the user's shell adds, so more
// folders are searched than PATH names.
func Find(command, dir, own string) (executable, path string, err error) {
	folders := program.Folders(cmp.Or(own, os.Getenv("PATH")))
	path = program.Join(folders)
	if filepath.Base(command) != command {
		if !filepath.IsAbs(command) && dir != "" {
			command = filepath.Join(dir, command)
		}
		executable, err = exec.LookPath(command)
		if err != nil {
			return "", "", &MissingError{Command: command, Err: errors.Unwrap(err)}
		}
		return executable, path, nil
	}
	if executable, ok := program.Search(command, folders); ok {
		return executable, path, nil
	}
	extra := usualPlaces() // looked up each time: it may just have been installed
	if executable, ok := program.Search(command, extra); ok {
		// The programs that it calls (node for npx) are often in the same folder.
		return executable, program.Join(slices.Concat([]string{filepath.Dir(executable)}, folders, extra)), nil
	}
	return "", "", &MissingError{Command: command, Path: path}
}

// usualPlaces are the folders in which package and version managers keep
// programs, the newest version first.
func usualPlaces() []string {
	home, err := os.UserHomeDir()
	if err != nil {
		return nil
	}
	patterns := []string{
		"~/.local/bin", "~/.nvm/versions/node/*/bin", "~/.local/share/fnm/aliases/default/bin",
		"~/.local/share/mise/shims", "~/.asdf/shims", "~/.volta/bin", "~/.bun/bin", "~/.deno/bin",
		"~/.cargo/bin", "~/.pyenv/shims", "~/go/bin",
		"/opt/homebrew/bin", "/usr/local/bin", "/home/linuxbrew/.linuxbrew/bin", "/usr/bin", "/bin", "/snap/bin",
	}
	if runtime.GOOS == "windows" {
		patterns = []string{
			`~\AppData\Roaming\npm`, `~\AppData\Local\Volta\bin`, `~\scoop\shims`, `~\.local\bin`, `~\.cargo\bin`,
			`~\AppData\Local\mise\shims`, `~\AppData\Roaming\nvm\*`, `~\.bun\bin`,
			filepath.Join(os.Getenv("ProgramFiles"), "nodejs"),
		}
	}
	var folders []string
	for _, pattern := range patterns {
		if rest, ok := strings.CutPrefix(pattern, "~"); ok {
			pattern = home + rest
		}
		found, _ := filepath.Glob(pattern)
		slices.SortFunc(found, func(a, b string) int { // the newest version first
			return semver.Compare(versions().FindString(b), versions().FindString(a))
		})
		folders = append(folders, found...)
	}
	return folders
}

// versions matches the name of a folder such as v22.3.0.
var versions = lazy.Regexp(`v\d+\.\d+\.\d+`)
