package doctor

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/mcp-metarouter/metarouter/internal/configpath"
	"github.com/mcp-metarouter/metarouter/internal/safefile"
	"github.com/mcp-metarouter/metarouter/internal/vault"
)

// A World has the programs and files that Examine may look at.
type World interface {
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
