package secret

import (
	"regexp"
	"slices"
	"strings"
	"sync"
)

// For those who show a whole file and would rather hide too much, there is a wider
// question: what may be a secret, or is about a person. It is put to names ([Maybe]), to
// texts ([HideMaybe]), and to values as a whole ([Begins]).

// hints are in names of what may be secret, and parts are words of them.
var (
	hints = []string{"token", "auth", "session", "account", "signature", "email"}
	parts = []string{"key", "keys", "pat", "pass", "pwd"}
)

// Maybe reports whether what has this name may be a secret: what is Named, and author,
// token_count, key_path, accountId, email, and the option -u, but not monkey, path or user.
func Maybe(name string) bool {
	lower := strings.ToLower(name)
	return option(name) || name != "" && name[0] == '-' && slices.Contains([]string{"u", "user"}, strings.TrimLeft(lower, "-")) ||
		slices.ContainsFunc(hints, func(hint string) bool { return strings.Contains(lower, hint) }) ||
		slices.ContainsFunc(split(name), func(word string) bool { return slices.Contains(parts, strings.TrimRight(word, "0123456789")) })
}

// begins is how what may be a secret begins, however short it is.
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
	schemes    = once(`(?i)\b(?:bearer|basic)\s+([^\s"'\\,;$]{6,})`)
	header     = once(`^([A-Za-z0-9_.-]{1,64}):\s*(\S.*)`)
	assigned   = once(`^([^=?\s]{1,64})=(.+)`)
	password   = once(`://(?:[^/?#\s@:]*:)?([^/?#\s]+)@`) // or who asks, without one
	asked      = once(`[?&][^=&#\s]+=((?:[^&#\s"']|["'][^&#\s,:}\])])+)`)
	segment    = once(`/([A-Za-z0-9_-]+)`)
)

// HideMaybe is Hide for all that may be a secret: the values of names that Maybe are, to
// the end of the line if one begins it; passwords, queries, and long parts with digits in
// the path of a URL; and tokens that are shorter than any is.
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
