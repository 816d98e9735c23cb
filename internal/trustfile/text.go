package trustfile

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/tailscale/hujson"

	"github.com/mcp-metarouter/metarouter/internal/prose"
	"github.com/mcp-metarouter/metarouter/internal/safefile"
	"github.com/mcp-metarouter/metarouter/internal/script/stored"
)

// A Text is the text of a configuration as a person approves it: the members of the files that
// the router reads, with variables as they are written. Spaces, comments, the order of keys and
// keys of other programs do not count. The text of the stored scripts counts; the content of other files that
// the text names, such as an envFile or a program, does not. It is not modified after it was made.
type Text struct {
	Files   []string          // absolute paths
	Scripts [][]stored.Script // of each of Files
	Objects []*hujson.Object  // of each of Files, with duplicate keys, if they are kept

	approvals []Approval // one for each of Files
}

// Add returns t with a file: an object of its members that the router reads, and its scripts. In a bare object, each
// key but "metarouter" is the name of a server. If keep is set, the object is kept.
func (t Text) Add(path string, object *hujson.Object, scripts []stored.Script, bare, keep bool) Text {
	t.Files, t.Scripts, t.approvals = append(t.Files, path), append(t.Scripts, scripts), append(t.approvals, approvalOf(object, scripts, bare))
	if keep {
		t.Objects = append(t.Objects, object)
	}
	return t
}

// Has reports whether the text has an entry of the name.
func (t Text) Has(server string) bool {
	return slices.ContainsFunc(t.approvals, func(a Approval) bool {
		_, ok := a.Entries[server]
		return ok
	})
}

// Digest returns a hash of the text. Texts that are the same to [Text.Trusted] have the same digest.
func (t Text) Digest() string {
	var all []string
	for _, a := range t.approvals {
		all = append(all, a.Digest)
	}
	return hash(strings.Join(all, " "))
}

// Trusted returns nil if a person has approved the text with [Text.Trust]. The files are not read
// again, so that the checked text is the text that runs.
//
// The error is an *[Untrusted] if the text is not approved. Another error says why no approval
// counts, and how to correct that: users other than this one and root can write to dataDir or to
// the file of approvals in it. Without a data folder, no text is approved.
func (t Text) Trusted(dataDir string) error {
	approved, err := read(dataDir)
	if err != nil {
		return fmt.Errorf("no approval counts: %w", err)
	}
	u := &Untrusted{Text: t}
	trusted := dataDir != ""
	for i, path := range t.Files {
		before, known := approved[path]
		if !known || before.Digest != t.approvals[i].Digest {
			trusted = false
			u.compare(before, t.approvals[i])
		}
		u.Before = u.Before || known
	}
	if trusted {
		return nil
	}
	return u
}

// Trust approves the text. The approval is kept in dataDir, which must not be "".
func (t Text) Trust(dataDir string) error {
	if dataDir == "" {
		return errors.New("trust: the approval can't be kept without a data folder; use --data DIR")
	}
	read := func() (map[string]Approval, error) { return read(dataDir) }
	err := safefile.Edit(pathIn(dataDir), maxApprovals, "approves a file", read, func(approved map[string]Approval) {
		for i, path := range t.Files {
			approved[path] = t.approvals[i]
		}
	})
	if err != nil {
		return fmt.Errorf("trust: %w", err)
	}
	return nil
}

// An Untrusted is the error of [Text.Trusted] for a text that no person has approved: it
// says how the text differs from the text that was approved before. The texts are compared as
// they are written, without the values of variables.
type Untrusted struct {
	Text   Text // that is not approved
	Before bool // an earlier text was approved

	// Names of servers with entries that differ, and files of scripts that do, sorted. All are empty without an earlier text.
	Added, Removed, Edited []string
	Settings               bool // the "metarouter" object differs
}

func (u *Untrusted) Error() string {
	file := strings.Join(u.Text.Files, ", ")
	if !u.Before {
		return file + " is not trusted: it was found in this folder, and what it says runs commands"
	}
	settings := ""
	if u.Settings {
		settings = `edited: the object "metarouter"`
	}
	how := prose.Clauses(someNames("added", u.Added), someNames("removed", u.Removed), someNames("edited", u.Edited), settings)
	if how != "" {
		how = " (" + how + ")"
	}
	return fmt.Sprintf("%s is not trusted: it was edited since you approved it%s", file, how)
}

// someNames joins the first few names that had a change, and counts the others; "" without names. It quotes a name that might be taken
// for a part of the sentence.
func someNames(change string, names []string) string {
	const most, longest = 5, 60
	if len(names) == 0 {
		return ""
	}
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
	return change + ": " + prose.List(names, most)
}

// compare adds how the text of a file differs from the approved text.
func (u *Untrusted) compare(before, now Approval) {
	if before.Entries == nil || now.Entries == nil {
		return // the names of the entries are not known
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
