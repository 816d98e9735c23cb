package edit

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/mcp-metarouter/metarouter/internal/configpath"
	"github.com/mcp-metarouter/metarouter/internal/safefile"
)

const maxStored = 8 << 20 // bytes of a file of [stored]

// The files of [stored]: the clients' entries that were imported into a file of ours, as [clients.Ours] has them, and the entries of
// a client's file that 'install --each' replaced, as [clients.InPlace] has them.
const importedFile, replacedFile = "imported.json", "replaced.json"

// stored returns the texts that belong to a path in a file next to the user's own configuration, after change, which may be nil. A
// missing or damaged file has none.
func stored(name, path string, change func(map[string]string) map[string]string) (map[string]string, error) {
	own, err := configpath.Own()
	if err != nil {
		return nil, err
	}
	file := filepath.Join(filepath.Dir(own), name)
	var all map[string]map[string]string
	data, _ := safefile.ReadOwn(file, maxStored)
	if json.Unmarshal(data, &all) != nil || all == nil {
		all = make(map[string]map[string]string)
	}
	if change == nil {
		return all[path], nil
	}
	if all[path] == nil {
		all[path] = make(map[string]string)
	}
	if all[path] = change(all[path]); all[path] == nil {
		delete(all, path)
	}
	if data, err = json.MarshalIndent(all, "", "  "); err == nil && len(data) > maxStored {
		err = fmt.Errorf("%s would be larger than %d MiB", file, maxStored>>20)
	}
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return nil, err
	}
	return all[path], safefile.Write(file, data, true)
}
