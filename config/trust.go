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

// Trusted reports whether what the files of c said when it was loaded was
// approved with Trust. Another text of the same entries is the same: spaces,
// comments, the order of keys and what other programs keep in the file don't
// count, and variables count by their names. The files are not read again, so
// that what was looked at is what runs.
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

// Digest is a hash of what the files of c said when it was loaded, in the sense of
// Trusted: before variables are expanded.
func (c Config) Digest() string {
	sum := sha256.Sum256([]byte(strings.Join(c.digests, " ")))
	return hex.EncodeToString(sum[:])
}

// Trust approves what the files of c said when it was loaded. The approval is
// kept in dataDir; without a dataDir there is nowhere to keep it.
func (c Config) Trust(dataDir string) error {
	if dataDir == "" {
		return errors.New("trust: there is no data folder to keep the approval in; use --data DIR")
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

// approvals maps absolute paths to hashes of their entries. A file that is
// missing or damaged approves nothing.
func approvals(dataDir string) map[string]string {
	data, _ := os.ReadFile(trustFile(dataDir))
	approved := make(map[string]string)
	if json.Unmarshal(data, &approved) != nil || approved == nil {
		return make(map[string]string)
	}
	return approved
}

// digest is a hash of what the source says to us, in one canonical spelling.
func (s source) digest() string {
	bare := (&decoder{source: s}).bare()
	said := new(hujson.Object)
	for _, m := range s.root.Members {
		if key := keyOf(m); bare || key == "metarouter" || slices.Contains(roots, key) {
			said.Members = append(said.Members, m)
		}
	}
	sum := sha256.Sum256(canonical(nil, said))
	return hex.EncodeToString(sum[:])
}

// canonical appends v with its keys sorted and nothing that has no meaning. A
// key that is there twice stays twice, so that nothing hides behind another.
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
