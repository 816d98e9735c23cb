package secret

import (
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/mcp-metarouter/metarouter/internal/lazy"
)

// Callers that show a whole file prefer to hide too much: everything that may be a secret,
// or is about a person. They use [Maybe] for names, [HideMaybe] for texts, and [Begins] for
// whole values.

// hints are parts of names of possible secrets, and parts are words of such names.
var (
	hints = []string{"token", "auth", "session", "account", "signature", "email"}
	parts = []string{"key", "keys", "pat", "pass", "pwd"}
)

// Maybe reports whether a name may stand for a secret: every name for which [Named] is
// true, and author, token_count, key_path, accountId, email, and the option -u, but not
// monkey, path or user.
func Maybe(name string) bool {
	lower := strings.ToLower(name)
	return option(name) || name != "" && name[0] == '-' && slices.Contains([]string{"u", "user"}, strings.TrimLeft(lower, "-")) ||
		slices.ContainsFunc(hints, func(hint string) bool { return strings.Contains(lower, hint) }) ||
		slices.ContainsFunc(split(name), func(word string) bool { return slices.Contains(parts, strings.TrimRight(word, "0123456789")) })
}

// begins matches the beginnings of possible secrets of any length.
var begins = sync.OnceValue(func() *regexp.Regexp {
	all := "Bearer |Basic "
	for _, t := range tokens {
		all += "|" + t.begins
	}
	return regexp.MustCompile(`^(?:` + all + `)`)
})

// Begins reports whether a value begins as tokens do.
func Begins(value string) bool { return begins().MatchString(value) }

var (
	shortForms = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(tokenForms(2)) })
	schemes    = lazy.Regexp(`(?i)\b(?:bearer|basic)\s+([^\s"'\\,;$]{6,})`)
	header     = lazy.Regexp(`^([A-Za-z0-9_.-]{1,64}):\s*(\S.*)`)
	assigned   = lazy.Regexp(`^([^=?\s]{1,64})=(.+)`)
	password   = lazy.Regexp(`://(?:[^/?#\s@:]*:)?([^/?#\s]+)@`) // or the user, if there is no password
	asked      = lazy.Regexp(`[?&][^=&#\s]+=((?:[^&#\s"']|["'][^&#\s,:}\])])+)`)
	segment    = lazy.Regexp(`/([A-Za-z0-9_-]+)`)
)

// HideMaybe is [Hide] for everything that may be a secret: the values of names for which
// [Maybe] is true, to the end of the line if the name begins it; passwords, queries, and
// long path segments with digits in URLs; and tokens that are cut short.
func HideMaybe(text, hidden string) string {
	begun := func(text string, at []int) (from, to int) {
		if !Maybe(text[at[2]:at[3]]) {
			return 0, 0
		}
		return group(text, at)
	}
	text = each(text, hidden, shortForms(), group)
	text = each(text, hidden, password(), group)
	if strings.Contains(text, "://") {
		text = each(text, hidden, segment(), func(text string, at []int) (from, to int) {
			if part := text[at[2]:at[3]]; !Begins(part) && (len(part) < 16 || !strings.ContainsAny(part, "0123456789")) {
				return 0, 0
			}
			return group(text, at)
		})
	}
	text = hideNamed(text, hidden, true)
	text = each(text, hidden, asked(), group)
	text = each(text, hidden, schemes(), group)
	text = each(text, hidden, header(), begun)
	return each(text, hidden, assigned(), begun)
}
