package edit

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"

	"github.com/mcp-metarouter/metarouter/internal/configpath"
	"github.com/mcp-metarouter/metarouter/internal/safefile"
)

// maxImported is the most bytes of the file of imports.
const maxImported = 4 << 20

// imports returns the clients' entries that were imported into our file at path, as [clients.Ours] has
// them, with those of more, which it stores. They are in a file next to the user's own configuration; a
// missing or damaged one has none.
func imports(path string, more map[string]string) (map[string]string, error) {
	own, err := configpath.Own()
	if err != nil {
		return nil, err
	}
	file := filepath.Join(filepath.Dir(own), "imported.json")
	var all map[string]map[string]string // by the path of our file
	data, _ := safefile.ReadOwn(file, maxImported)
	if json.Unmarshal(data, &all) != nil || all == nil {
		all = make(map[string]map[string]string)
	}
	if len(more) == 0 {
		return all[path], nil
	}
	if all[path] == nil {
		all[path] = make(map[string]string)
	}
	maps.Copy(all[path], more)
	if data, err = json.MarshalIndent(all, "", "  "); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return nil, err
	}
	return all[path], safefile.Write(file, data, true)
}
