// Package trustfile keeps which texts of configuration files a person has approved, and tells
// how another text differs. It is a leaf.
package trustfile

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/tailscale/hujson"

	"github.com/mcp-metarouter/metarouter/internal/jsonc"
	"github.com/mcp-metarouter/metarouter/internal/safefile"
	"github.com/mcp-metarouter/metarouter/internal/script/stored"
)

// settings is the key of the router's own settings in a file.
const settings = "metarouter"

func pathIn(dataDir string) string { return filepath.Join(dataDir, "trust.json") }

// maxApprovals is the most bytes of the file of approvals.
const maxApprovals = 16 << 20

// read returns the approvals by the absolute paths of the files. A missing or damaged file of
// approvals has no approvals. The error says who else could have written approvals.
func read(dataDir string) (map[string]Approval, error) {
	if dataDir == "" {
		return nil, nil
	}
	path := pathIn(dataDir)
	for _, p := range []string{dataDir, path} {
		if err := safefile.OwnersOnly(p); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	data, _ := safefile.ReadOwn(path, maxApprovals)
	approved := make(map[string]Approval)
	if json.Unmarshal(data, &approved) != nil || approved == nil {
		return make(map[string]Approval), nil
	}
	return approved, nil
}

// write keeps the approvals in the data folder, which it makes.
func write(dataDir string, approved map[string]Approval) error {
	if err := os.MkdirAll(dataDir, 0o700); err != nil {
		return err
	}
	data, err := json.MarshalIndent(approved, "", "  ")
	if err != nil {
		return err
	}
	return safefile.Write(pathIn(dataDir), data, true)
}

// An Approval is the record of an approved text of one file: digests of its parts.
type Approval struct {
	Settings string            `json:"settings"` // of the "metarouter" object, and of all that is no entry
	Entries  map[string]string `json:"entries"`  // of the entries, by the names of servers, and of the scripts, by their files
}

// maxName is the most bytes of a name that an approval keeps. No server has a longer one.
const maxName = 256

// approvalOf returns the approval of an object with the servers and the settings of a file, by its
// canonical spelling, and of scripts. A duplicate key counts, so that no value hides behind another.
func approvalOf(object *hujson.Object, scripts []stored.Script, bare bool) Approval {
	a := Approval{Entries: make(map[string]string)}
	add := func(name string, parts ...string) {
		short := name[:min(len(name), maxName)]
		a.Entries[short] = digest(a.Entries[short], append(parts, name)...)
	}
	for _, s := range scripts {
		add(s.File, "script", s.Code)
	}
	for _, m := range object.Members {
		key := jsonc.Key(m)
		servers, isObject := m.Value.Value.(*hujson.Object)
		switch {
		case bare && key != settings:
			add(key, "server", "", canonical(m.Value))
		case isObject && key != settings:
			for _, m := range servers.Members {
				add(jsonc.Key(m), "server", key, canonical(m.Value))
			}
		default:
			a.Settings = digest(a.Settings, key, canonical(m.Value))
		}
	}
	return a
}

// canonical returns a value in its canonical spelling.
func canonical(v hujson.Value) string { return string(jsonc.AppendCanonical(nil, v.Value)) }

// digest returns a hash of parts, and of the digest of earlier parts of the same name, which may be "".
func digest(before string, parts ...string) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q", before, parts))
	return hex.EncodeToString(sum[:])
}
