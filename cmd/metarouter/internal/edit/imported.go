package edit

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"

	"github.com/mcp-metarouter/metarouter/internal/atomicfile"
	"github.com/mcp-metarouter/metarouter/internal/configpath"
	"github.com/mcp-metarouter/metarouter/internal/safefile"
)

// maxImported is the most bytes of the file of imports.
const maxImported = 4 << 20

// readImports returns the imports by the absolute path of our file, as [clients.Ours] has them, and
// the path of the file that keeps them, next to the user's own configuration. A missing or damaged
// file has none.
func readImports() (all map[string]map[string]string, path string, err error) {
	own, err := configpath.Own()
	if err != nil {
		return nil, "", err
	}
	path = filepath.Join(filepath.Dir(own), "imported.json")
	data, _ := safefile.ReadOwn(path, maxImported)
	if json.Unmarshal(data, &all) != nil || all == nil {
		all = make(map[string]map[string]string)
	}
	return all, path, nil
}

// imported returns the clients' entries that were imported into our file.
func imported(ours string) map[string]string {
	all, _, _ := readImports()
	return all[ours]
}

// remember adds imported entries to those that are known of our file.
func remember(ours string, hashes map[string]string) error {
	all, path, err := readImports()
	if err != nil {
		return err
	}
	if all[ours] == nil {
		all[ours] = make(map[string]string)
	}
	maps.Copy(all[ours], hashes)
	data, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return atomicfile.Write(path, data, true)
}
