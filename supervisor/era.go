package supervisor

import (
	"os"
	"path/filepath"

	"github.com/mcp-metarouter/metarouter/config"
)

// An eraStore remembers which era each server speaks, a small file for each, so
// that a server that dislikes the probe is spared it. In "" it keeps nothing.
type eraStore string

func (d eraStore) path(entry config.Server) string {
	return filepath.Join(string(d), "eras", entry.Hash())
}

func (d eraStore) get(entry config.Server) era {
	if d == "" {
		return unknownEra
	}
	b, _ := os.ReadFile(d.path(entry))
	if e := era(b); e == legacyEra || e == modernEra {
		return e
	}
	return unknownEra
}

func (d eraStore) put(entry config.Server, e era) {
	if d == "" || d.get(entry) == e {
		return
	}
	path := d.path(entry)
	if os.MkdirAll(filepath.Dir(path), 0o700) == nil {
		os.WriteFile(path, []byte(e), 0o600) // if it fails, the server is probed again
	}
}
