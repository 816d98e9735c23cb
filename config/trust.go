package config

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tailscale/hujson"

	"github.com/mcp-metarouter/metarouter/internal/jsonc"
	"github.com/mcp-metarouter/metarouter/internal/trustfile"
)

// Trusted reports whether a person has approved the text of c's files with [Config.Trust].
// Spaces, comments, the order of keys and keys of other programs do not count, and
// variables count by their names. The files are not read again, so that exactly what was
// checked is what runs. The content of files that the text names, such as an envFile or a
// program, does not count either.
//
// The error is nil if the text is approved, and an *[Untrusted] if it is not. Another error
// says why no approval counts, and what to do: users other than this one and root can write
// to dataDir or to the file of approvals in it. Without a data folder, nothing is approved.
func (c Config) Trusted(dataDir string) error {
	approved := make(map[string]trustfile.Approval)
	if dataDir != "" {
		var err error
		if approved, err = trustfile.Read(dataDir); err != nil {
			return fmt.Errorf("no approval counts: %w", err)
		}
	}
	u := &Untrusted{Text: c}
	trusted := dataDir != ""
	for i, path := range c.Files {
		before, known := approved[path]
		if !known || before.Digest != c.approvals[i].Digest {
			trusted = false
			u.compare(before, c.approvals[i])
		}
		u.Before = u.Before || known
	}
	if trusted {
		return nil
	}
	return u
}

// Digest returns a hash of the text of c's files, before variables are expanded. Texts that
// are the same to Trusted have the same Digest.
func (c Config) Digest() string {
	var all []string
	for _, a := range c.approvals {
		all = append(all, a.Digest)
	}
	sum := sha256.Sum256([]byte(strings.Join(all, " ")))
	return hex.EncodeToString(sum[:])
}

// Trust approves the text of c's files as it was read. The approval is kept in dataDir,
// which must not be "".
func (c Config) Trust(dataDir string) error {
	if dataDir == "" {
		return errors.New("trust: the approval can't be kept without a data folder; use --data DIR")
	}
	approved, err := trustfile.Read(dataDir)
	if err != nil {
		return fmt.Errorf("trust: %w", err)
	}
	for i, path := range c.Files {
		approved[path] = c.approvals[i]
	}
	if err := trustfile.Write(dataDir, approved); err != nil {
		return fmt.Errorf("trust: %w", err)
	}
	return nil
}

// Text returns, for each of c's files, the object that an approval covers: without comments
// and keys of other programs, but with duplicate keys. Variables are as they are written.
// Only what [LoadText] returned has a Text.
func (c Config) Text() []json.RawMessage {
	all := make([]json.RawMessage, len(c.sources))
	for i, s := range c.sources {
		all[i] = jsonc.Compact(hujson.Value{Value: s.said()})
	}
	return all
}

// said returns the members of the file that this package reads. An approval covers them.
func (s source) said() *hujson.Object {
	said := new(hujson.Object)
	for _, m := range s.root.Members {
		if key := jsonc.Key(m); s.bare || key == "metarouter" || slices.Contains(roots, key) {
			said.Members = append(said.Members, m)
		}
	}
	return said
}
