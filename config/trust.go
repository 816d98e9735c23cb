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

	"github.com/tailscale/hujson"
)

// Trusted reports whether the entries of the file, as they are now, were
// approved with Trust. Another text of the same entries is the same: spaces,
// comments, the order of keys and what other programs keep in the file don't
// count, and variables count by their names.
func Trusted(path, dataDir string) (bool, error) {
	path, hash, err := entriesHash(path)
	if err != nil {
		return false, err
	}
	return dataDir != "" && approvals(dataDir)[path] == hash, nil
}

// Trust approves the entries of the file as they are now. The approval is kept
// in dataDir; without a dataDir there is nowhere to keep it.
func Trust(path, dataDir string) error {
	path, hash, err := entriesHash(path)
	if err != nil {
		return err
	}
	if dataDir == "" {
		return errors.New("trust: there is no data folder to keep the approval in; use --data DIR")
	}
	approved := approvals(dataDir)
	approved[path] = hash
	data, err := json.MarshalIndent(approved, "", "  ")
	if err != nil {
		return fmt.Errorf("trust: %w", err)
	}
	if err := os.MkdirAll(dataDir, 0o700); err != nil {
		return fmt.Errorf("trust: %w", err)
	}
	if err := writeByRename(trustFile(dataDir), data); err != nil {
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

// entriesHash is over what the file says to us, in one canonical spelling.
func entriesHash(path string) (absolute, hash string, err error) {
	absolute, err = filepath.Abs(path)
	if err != nil {
		return "", "", fmt.Errorf("trust: %w", err)
	}
	data, err := os.ReadFile(absolute)
	if err != nil {
		return "", "", fmt.Errorf("trust: %w", err)
	}
	s, err := parse(absolute, data)
	if err != nil {
		return "", "", err
	}
	bare := (&decoder{source: s}).bare()
	said := new(hujson.Object)
	for _, m := range s.root.Members {
		if key := keyOf(m); bare || key == "metarouter" || slices.Contains(roots, key) {
			said.Members = append(said.Members, m)
		}
	}
	sum := sha256.Sum256(canonical(nil, said))
	return absolute, hex.EncodeToString(sum[:]), nil
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

// writeByRename replaces the file in one step, readable by its owner alone.
func writeByRename(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*") // 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // nothing, once renamed
	_, err = f.Write(data)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
