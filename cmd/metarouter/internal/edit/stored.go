package edit

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/mcp-metarouter/metarouter/internal/configpath"
	"github.com/mcp-metarouter/metarouter/internal/safefile"
)

const maxStored = 8 << 20 // bytes of a file of [readStored]

// The names of [readStored]: the clients' entries that were imported into a file of ours, as [clients.Ours] has them, and a
// [clients.Record] of each client's file.
const importedFile, replacedFile = "imported.json", "replaced.json"

// readStored reads the values of that name by their keys, from a file in the folder of the user's own configuration. A missing file has
// no values.
func readStored[T any](name string) (path string, all map[string]T, err error) {
	own, err := configpath.Own()
	if err != nil {
		return "", nil, err
	}
	path = filepath.Join(filepath.Dir(own), name)
	data, err := safefile.ReadOwn(path, maxStored)
	if err == nil {
		if err = json.Unmarshal(data, &all); err != nil {
			err = fmt.Errorf("%s is damaged (%w); repair it, or delete it", path, err)
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if all == nil {
		all = make(map[string]T)
	}
	return path, all, err
}

// editStored has edit change the values of that name.
func editStored[T any](name string, edit func(all map[string]T)) error {
	own, err := configpath.Own()
	if err != nil {
		return err
	}
	return safefile.Edit(filepath.Join(filepath.Dir(own), name), maxStored, "notes what it has edited", func() (map[string]T, error) {
		_, all, err := readStored[T](name)
		return all, err
	}, edit)
}
