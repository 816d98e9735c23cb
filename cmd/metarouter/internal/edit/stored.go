package edit

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/mcp-metarouter/metarouter/internal/configpath"
	"github.com/mcp-metarouter/metarouter/internal/safefile"
)

const maxStored = 8 << 20 // bytes of a file of a [storedFile]

// The files of [storedFile]: the clients' entries that were imported into a file of ours, as [clients.Ours] has them, and a
// [clients.Record] of each client's file.
const importedFile, replacedFile = "imported.json", "replaced.json"

// A storedFile has a value for each of some keys, in a file in the folder of the user's own configuration.
type storedFile[T any] struct {
	path string
	all  map[string]T
}

// openStored reads the file of that name. A missing file has no values.
func openStored[T any](name string) (storedFile[T], error) {
	own, err := configpath.Own()
	if err != nil {
		return storedFile[T]{}, err
	}
	s := storedFile[T]{path: filepath.Join(filepath.Dir(own), name)}
	data, err := safefile.ReadOwn(s.path, maxStored)
	if err == nil {
		if err = json.Unmarshal(data, &s.all); err != nil {
			err = fmt.Errorf("%s is damaged (%w); repair it, or delete it", s.path, err)
		}
	}
	if s.all == nil {
		s.all = make(map[string]T)
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return s, err
}

// write writes the file.
func (s storedFile[T]) write() error {
	data, err := json.MarshalIndent(s.all, "", "  ")
	if err == nil && len(data) > maxStored {
		err = fmt.Errorf("%s would be larger than %d MiB", s.path, maxStored>>20)
	}
	if err == nil {
		err = os.MkdirAll(filepath.Dir(s.path), 0o700)
	}
	if err != nil {
		return err
	}
	return safefile.Write(s.path, data, true)
}
