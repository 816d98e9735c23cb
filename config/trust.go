package config

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/tailscale/hujson"

	"github.com/mcp-metarouter/metarouter/internal/jsonc"
	"github.com/mcp-metarouter/metarouter/internal/prose"
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

// An Untrusted is the error of [Config.Trusted] for a text that no person has approved: it
// says how the text differs from the one that was approved before. The texts are compared as
// they are written, without the values of variables.
type Untrusted struct {
	Text   Config // that is not approved
	Before bool   // an earlier text was approved

	// Names of servers whose entries differ, sorted. All are empty without an earlier text.
	Added, Removed, Edited []string
	Settings               bool // the "metarouter" object differs
}

func (u *Untrusted) Error() string {
	file := strings.Join(u.Text.Files, ", ")
	if !u.Before {
		return file + " is not trusted: it was found in this folder, and what it says runs commands"
	}
	var all []string
	for _, part := range []struct {
		what  string
		names []string
	}{{"added", u.Added}, {"removed", u.Removed}, {"edited", u.Edited}} {
		if len(part.names) > 0 {
			all = append(all, part.what+": "+someNames(part.names))
		}
	}
	if u.Settings {
		all = append(all, `edited: the object "metarouter"`)
	}
	how := ""
	if len(all) > 0 {
		how = " (" + strings.Join(all, "; ") + ")"
	}
	return fmt.Sprintf("%s is not trusted: it was edited since you approved it%s", file, how)
}

// someNames joins the first few names, and counts the others. A name that might be taken for
// more than a name is quoted.
func someNames(names []string) string {
	const most, longest = 5, 60
	names = slices.Clone(names)
	for i, name := range names {
		if utf8.RuneCountInString(name) > longest {
			name = string([]rune(name)[:longest]) + "…"
		}
		if name == "" || strings.ContainsFunc(name, func(r rune) bool {
			return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("-_./@…", r)
		}) {
			name = strconv.Quote(name)
		}
		names[i] = name
	}
	return prose.List(names, most)
}

// compare adds how the text of a file differs from the approved one.
func (u *Untrusted) compare(before, now trustfile.Approval) {
	if before.Entries == nil || now.Entries == nil {
		return // which entries there were is not known
	}
	u.Settings = u.Settings || before.Settings != now.Settings
	for _, name := range slices.Sorted(maps.Keys(now.Entries)) {
		switch was, known := before.Entries[name]; {
		case !known:
			u.Added = append(u.Added, name)
		case was != now.Entries[name]:
			u.Edited = append(u.Edited, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(before.Entries)) {
		if _, stays := now.Entries[name]; !stays {
			u.Removed = append(u.Removed, name)
		}
	}
}
