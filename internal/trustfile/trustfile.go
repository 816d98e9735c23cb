// Package trustfile keeps which texts of configuration files a person has approved, and tells
// how another text differs. It is a leaf.
package trustfile

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

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

// An Approval is the record of an approved text of one file. The digest alone decides; the other
// digests show which parts of a later text differ.
type Approval struct {
	Digest   string            `json:"digest"`
	Settings string            `json:"settings"` // the digest of the "metarouter" object
	Entries  map[string]string `json:"entries"`  // the digests of the entries, by the names of servers, and of the scripts, by their files; nil if the names are too long to be kept
}

// maxNames is the most bytes of the names that an approval keeps.
const maxNames = 64 << 10

// approvalOf returns the approval of an object with the servers and the settings of a file, by its
// canonical spelling, and of scripts. A duplicate key counts, so that no value hides behind another.
func approvalOf(object *hujson.Object, scripts []stored.Script, bare bool) Approval {
	a := Approval{Entries: make(map[string]string)}
	type part struct{ key, name, digest string }
	var parts []part
	names := 0
	addPart := func(p part) {
		parts = append(parts, p)
		a.Entries[p.name] = chain(a.Entries[p.name], p.digest)
		names += len(p.name)
	}
	addEntry := func(key string, m hujson.ObjectMember) { addPart(part{key, jsonc.Key(m), digest(m.Value.Value)}) }
	for _, s := range scripts {
		addPart(part{"*.js", s.File, chain("script", s.Code)}) // no key of a file that counts has this name
	}
	for _, m := range object.Members {
		key := jsonc.Key(m)
		servers, isObject := m.Value.Value.(*hujson.Object)
		switch {
		case key == settings:
			p := part{key: key, digest: digest(m.Value.Value)}
			parts = append(parts, p)
			a.Settings = chain(a.Settings, p.digest)
		case isObject && !bare:
			parts = append(parts, part{key: key})
			for _, m := range servers.Members {
				addEntry(key, m)
			}
		default: // the server of a bare file, or "inputs"
			addEntry("", m)
		}
	}
	slices.SortStableFunc(parts, func(a, b part) int { return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.name, b.name)) })
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%q %q %s\n", p.key, p.name, p.digest)
	}
	a.Digest = fmt.Sprintf("%x", h.Sum(nil))
	if names > maxNames {
		a.Entries = nil
	}
	return a
}

// digest returns a hash of a value in a canonical spelling.
func digest(v hujson.ValueTrimmed) string {
	return fmt.Sprintf("%x", sha256.Sum256(jsonc.AppendCanonical(nil, v)))
}

// chain returns the digest of a value and of an earlier one of the same name, which may be "".
func chain(before, next string) string {
	if before == "" {
		return next
	}
	return fmt.Sprintf("%x", sha256.Sum256([]byte(before+next)))
}
