package config

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/mcp-metarouter/metarouter/internal/prose"
	"github.com/mcp-metarouter/metarouter/internal/trustfile"
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
