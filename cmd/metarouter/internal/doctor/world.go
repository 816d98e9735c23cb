package doctor

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/mcp-metarouter/metarouter/internal/configpath"
	"github.com/mcp-metarouter/metarouter/internal/safefile"
	"github.com/mcp-metarouter/metarouter/internal/vault"
)

// A World is what [Examine] may know of this machine.
type World struct {
	Folder     string   // the working folder of this process
	KeyFiles   []string // the files with the keys of the secrets and of the logins at remote servers, where no keyring has them
	DataFolder error    // why the data folder can't be written, or a [*safefile.Exposed]; nil if all is well, or nothing is kept
}

// Look returns the world of this process, which keeps its data in a folder; "" keeps nothing.
func Look(dataDir string) (w World) {
	w.Folder, _ = os.Getwd()
	if own, err := configpath.Own(); err == nil {
		for _, path := range []string{vault.Of(own).KeyFile(), vault.Logins(filepath.Dir(own)).KeyFile()} {
			if path != "" {
				w.KeyFiles = append(w.KeyFiles, path)
			}
		}
	}
	if dataDir != "" {
		w.DataFolder = tryFolder(dataDir)
	}
	return w
}

func tryFolder(path string) error {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return err
	}
	probe, err := os.CreateTemp(path, ".doctor")
	if err != nil {
		return err
	}
	if err := errors.Join(probe.Close(), os.Remove(probe.Name())); err != nil {
		return err
	}
	return safefile.OwnersOnly(path)
}
