package doctor

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/secret"
)

// concealer returns what puts the names of an entry's variables and headers in the
// place of their values: a server may print what it was given.
func concealer(entry config.Server) func(string) string {
	type given struct{ value, name string }
	var all []given
	for name, value := range entry.Env {
		all = append(all, given{value, "${" + name + "}"})
	}
	for name, value := range entry.Headers {
		all = append(all, given{value, "<" + name + ">"})
		if _, token, ok := strings.Cut(value, " "); ok { // Bearer
			all = append(all, given{token, "<" + name + ">"})
		}
	}
	for i, shown := range masked(entry.Args) {
		if shown != entry.Args[i] {
			_, value, _ := strings.Cut(entry.Args[i], "=")
			all = append(all, given{cmp.Or(value, entry.Args[i]), "…"})
		}
	}
	all = slices.DeleteFunc(all, func(s given) bool { return isHarmless(s.value) })
	slices.SortFunc(all, func(a, b given) int { // what is a part of another comes after it
		return cmp.Or(cmp.Compare(len(b.value), len(a.value)), cmp.Compare(a.name, b.name))
	})
	var pairs []string
	for _, s := range all {
		pairs = append(pairs, s.value, s.name)
	}
	return strings.NewReplacer(pairs...).Replace
}

// isHarmless reports whether a value can be shown, or is too short to be looked for:
// paths, addresses without a password, and words.
func isHarmless(value string) bool {
	if len(value) < 6 {
		return true
	}
	switch {
	case strings.HasPrefix(value, "http"):
		return !strings.ContainsAny(value, "@?")
	case strings.ContainsAny(value[:1], "/~."), strings.Contains(value, `:\`):
		return true
	}
	return false
}

// masked returns the words with what looks like a secret left out.
func masked(words []string) []string { return secret.Words(words, "…") }

// redacted is masked as one text.
func redacted(words []string) string { return strings.Join(masked(words), " ") }

// quoted returns words as the elements of a JSON array.
func quoted(words []string) string {
	var all []string
	for _, w := range masked(words) {
		all = append(all, strconv.Quote(w))
	}
	return strings.Join(all, ", ")
}

// plainWord is one that a shell takes as it is.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./…~-]+$`)

// byHand returns the entry's command as one types it.
func byHand(entry config.Server) string {
	words := masked(append([]string{entry.Command}, entry.Args...))
	for i, w := range words {
		if !plainWord.MatchString(w) {
			words[i] = "'" + strings.ReplaceAll(printable(w), "'", `'\''`) + "'"
		}
	}
	line := clip(strings.Join(words, " "), 300)
	if entry.Cwd != "" {
		return fmt.Sprintf("cd %s && %s", entry.Cwd, line)
	}
	return line
}

// printable leaves out what could move a cursor or hide text.
func printable(text string) string {
	text = escapes.ReplaceAllString(text, "")
	return strings.Map(func(r rune) rune {
		if r == '\t' {
			return ' '
		}
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, text)
}

// escapes matches what colours text on a terminal.
var escapes = regexp.MustCompile("\x1b\\[[0-9;?]*[ -/]*[@-~]|\x1b\\][^\x07\x1b]*(\x07|\x1b\\\\)?")

// clip returns at most n characters of a text.
func clip(text string, n int) string {
	if runes := []rune(text); len(runes) > n {
		return string(runes[:n-1]) + "…"
	}
	return text
}

// variableOf makes the name of a variable for a server's token.
func variableOf(server string) string {
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return unicode.ToUpper(r)
		}
		return '_'
	}, server)
	if name == "" || name[0] >= '0' && name[0] <= '9' {
		name = "MCP_" + name
	}
	return name + "_TOKEN"
}
