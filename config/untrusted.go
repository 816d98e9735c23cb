package config

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
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
)

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
func (u *Untrusted) compare(before, now approval) {
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

// An approval is what the file of approvals keeps of the text of a file. The digest alone
// decides; the rest names what differs from a later text.
type approval struct {
	Digest   string            `json:"digest"`
	Settings string            `json:"settings"` // the digest of the "metarouter" object
	Entries  map[string]string `json:"entries"`  // the digests of the entries, by the names of servers; nil if the names are too long to be kept
}

// maxNames is the most bytes of the names of servers that an approval keeps.
const maxNames = 64 << 10

// approval returns what an approval of the file covers: the keys that this package reads, in
// a canonical spelling. A duplicate key stays, so that no value hides behind another.
func (s source) approval() approval {
	a := approval{Entries: make(map[string]string)}
	type part struct{ key, name, digest string }
	var parts []part
	names := 0
	addEntry := func(key string, m hujson.ObjectMember) {
		name := jsonc.Key(m)
		p := part{key, name, digest(m.Value.Value)}
		parts = append(parts, p)
		a.Entries[name] = chain(a.Entries[name], p.digest)
		names += len(name)
	}
	for _, m := range s.said().Members {
		key := jsonc.Key(m)
		servers, isObject := m.Value.Value.(*hujson.Object)
		switch {
		case s.bare && key != "metarouter":
			addEntry("", m)
		case isObject && key != "metarouter":
			parts = append(parts, part{key: key})
			for _, m := range servers.Members {
				addEntry(key, m)
			}
		default:
			p := part{key: key, digest: digest(m.Value.Value)}
			parts = append(parts, p)
			if key == "metarouter" {
				a.Settings = chain(a.Settings, p.digest)
			}
		}
	}
	slices.SortStableFunc(parts, func(a, b part) int { return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.name, b.name)) })
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%q %q %s\n", p.key, p.name, p.digest)
	}
	a.Digest = hex.EncodeToString(h.Sum(nil))
	if names > maxNames {
		a.Entries = nil
	}
	return a
}

// digest returns a hash of a value in a canonical spelling.
func digest(v hujson.ValueTrimmed) string {
	sum := sha256.Sum256(jsonc.AppendCanonical(nil, v))
	return hex.EncodeToString(sum[:])
}

// chain returns the digest of a value and of an earlier one of the same name, which may be "".
func chain(before, next string) string {
	if before == "" {
		return next
	}
	sum := sha256.Sum256([]byte(before + next))
	return hex.EncodeToString(sum[:])
}
