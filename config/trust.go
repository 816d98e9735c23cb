package config

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/tailscale/hujson"

	"github.com/mcp-metarouter/metarouter/internal/atomicfile"
)

// Trusted reports whether a person has approved the text of c's files with [Config.Trust].
// Spaces, comments, the order of keys and keys of other programs do not count, and
// variables count by their names. The files are not read again, so that exactly what was
// checked is what runs.
func (c Config) Trusted(dataDir string) bool {
	if dataDir == "" {
		return false
	}
	approved := approvals(dataDir)
	for i, path := range c.Files {
		if approved[path] != c.digests[i] {
			return false
		}
	}
	return true
}

// Digest returns a hash of the text of c's files, before variables are expanded. Texts that
// are the same to Trusted have the same Digest.
func (c Config) Digest() string {
	sum := sha256.Sum256([]byte(strings.Join(c.digests, " ")))
	return hex.EncodeToString(sum[:])
}

// Trust approves the text of c's files as it was read. The approval is kept in dataDir,
// which must not be "".
func (c Config) Trust(dataDir string) error {
	if dataDir == "" {
		return errors.New("trust: the approval can't be kept without a data folder; use --data DIR")
	}
	approved := approvals(dataDir)
	for i, path := range c.Files {
		approved[path] = c.digests[i]
	}
	data, err := json.MarshalIndent(approved, "", "  ")
	if err != nil {
		return fmt.Errorf("trust: %w", err)
	}
	if err := os.MkdirAll(dataDir, 0o700); err != nil {
		return fmt.Errorf("trust: %w", err)
	}
	if err := atomicfile.Write(trustFile(dataDir), data, true); err != nil {
		return fmt.Errorf("trust: %w", err)
	}
	return nil
}

func trustFile(dataDir string) string { return filepath.Join(dataDir, "trust.json") }

// approvals returns the approved hashes by the absolute paths of the files. A missing or
// damaged file approves nothing.
func approvals(dataDir string) map[string]string {
	data, _ := os.ReadFile(trustFile(dataDir))
	approved := make(map[string]string)
	if json.Unmarshal(data, &approved) != nil || approved == nil {
		return make(map[string]string)
	}
	return approved
}

// digest returns a hash of the keys that this package reads, in a canonical spelling.
func (s source) digest() string {
	bare := s.bare()
	said := new(hujson.Object)
	for _, m := range s.root.Members {
		if key := keyOf(m); bare || key == "metarouter" || slices.Contains(roots, key) {
			said.Members = append(said.Members, m)
		}
	}
	sum := sha256.Sum256(canonical(nil, said))
	return hex.EncodeToString(sum[:])
}

// canonical appends v without spaces and comments, and with sorted keys. A duplicate key
// stays, so that no value hides behind another.
func canonical(to []byte, v hujson.ValueTrimmed) []byte {
	switch v := v.(type) {
	case *hujson.Object:
		to = append(to, '{')
		members := slices.Clone(v.Members)
		slices.SortStableFunc(members, func(a, b hujson.ObjectMember) int { return cmp.Compare(keyOf(a), keyOf(b)) })
		for _, m := range members {
			to = append(strconv.AppendQuote(to, keyOf(m)), ':')
			to = append(canonical(to, m.Value.Value), ',')
		}
		return append(to, '}')
	case *hujson.Array:
		to = append(to, '[')
		for _, e := range v.Elements {
			to = append(canonical(to, e.Value), ',')
		}
		return append(to, ']')
	case hujson.Literal:
		if v.Kind() == '"' {
			return strconv.AppendQuote(to, v.String())
		}
		return append(to, v...)
	}
	return to
}
