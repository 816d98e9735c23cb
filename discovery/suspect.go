package discovery

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/tailscale/hujson"

	"github.com/mcp-metarouter/metarouter/internal/jsonc"
	"github.com/mcp-metarouter/metarouter/internal/lazy"
	"github.com/mcp-metarouter/metarouter/internal/plain"
	"github.com/mcp-metarouter/metarouter/internal/prose"
)

// orders match words that are no description of a tool, but orders to the model that reads it, and
// marks that a person does not see where Markdown or HTML is shown. Real servers write "always use this
// tool to …" and "you must call X first", so these do not match.
var orders = []struct {
	first, last []string // a text that matches has one of each, in lower case; others are not matched, since patterns are slow
	pattern     func() *regexp.Regexp
}{
	{[]string{"ignore", "disregard", "forget", "override"}, []string{"instruction", "rule", "prompt", "direction", "guideline", "command"}, words(
		`\b(?:ignore|disregard|forget|override) (?:(?:all|any|every|of|the|your|my|these|those) )*(?:previous|prior|above|earlier|preceding|former|system|developer|safety) (?:\w+ )?(?:instruction|rule|prompt|direction|guideline|command)s?\b`,
	)},
	{[]string{"always"}, []string{"this", "me"}, words(
		`\balways (?:use|call|choose|pick|prefer|select) (?:this|me)(?: one| tool| function| server)?\s*(?:[.,;:!)]|$|instead\b|over (?:any|all|every)\b|and (?:not|never)\b)`,
	)},
	{[]string{"do", "never", "without"}, []string{"other", "user"}, words(
		`\b(?:do not|don['’]t|never) (?:ever )?(?:use|call|choose) (?:any|the|all) other (?:tool|server|function)s?\b`,
		`\b(?:do not|don['’]t|never) (?:ever )?(?:tell|inform|notify|alert|warn|mention|reveal|disclose|show) (?:(?:this|that|it|any|anything|of|about|to) )*the user\b`,
		`\bwithout (?:telling|informing|notifying|alerting|warning) the user\b`,
	)},
	{[]string{"<"}, []string{"!--", "important>", "system>", "secret>", "hidden>"}, words(`<!--`, `</?(?:important|system|secret|hidden)>`)},
}

// words returns an expression for any of the alternatives, in any case and with any space between words.
func words(alternatives ...string) func() *regexp.Regexp {
	return lazy.Regexp(`(?i)` + strings.ReplaceAll(strings.Join(alternatives, "|"), " ", `\s+`))
}

// ordersAt returns the place of the first orders in a text, or -1.
func ordersAt(text string) int {
	lower := strings.ToLower(strings.ReplaceAll(text, "ſ", "s")) // which also matches s
	has := func(part string) bool { return strings.Contains(lower, part) }
	first := -1
	for _, o := range orders {
		if !slices.ContainsFunc(o.first, has) || !slices.ContainsFunc(o.last, has) {
			continue
		}
		if at := o.pattern().FindStringIndex(text); at != nil && (first < 0 || at[0] < first) {
			first = at[0]
		}
	}
	return first
}

const (
	maxSuspects = 5  // texts of a tool
	maxWords    = 80 // characters of each that are shown
)

// suspects adds the strings of a value that give a model orders, with their place and the words.
func suspects(found []string, place []string, v hujson.Value) []string {
	switch of := v.Value.(type) {
	case hujson.Literal:
		text, _ := jsonc.Text(v)
		return suspect(found, place, text)
	case *hujson.Object:
		for _, m := range of.Members {
			name := jsonc.Key(m)
			found = suspect(found, append(place, "name"), name)
			found = suspects(found, append(place, name), m.Value)
		}
	case *hujson.Array:
		for _, e := range of.Elements {
			found = suspects(found, place, e)
		}
	}
	return found
}

// suspect adds a text, if it gives a model orders.
func suspect(found []string, place []string, text string) []string {
	at := ordersAt(text)
	if at < 0 || len(found) == maxSuspects {
		return found
	}
	shown := []rune(plain.Line(text[at:]))
	if len(shown) > maxWords {
		shown = append(shown[:maxWords], '…')
	}
	return append(found, fmt.Sprintf("%s: %q", plain.Line(strings.Join(place, ".")), string(shown)))
}

// maxInstructions bounds the bytes of a server's instructions.
const maxInstructions = 8 << 10

// instructions returns a server's instructions as models may read them, and the words in them that give orders, or hid.
func instructions(text string) (shown string, found []string) {
	if shown = plain.Visible(text); shown != text {
		found = []string{"instructions: " + hiddenNote}
	}
	shown = prose.Cut(strings.TrimSpace(shown), maxInstructions+len("…"))
	return shown, suspect(found, []string{"instructions"}, shown)
}

// hiding returns the notes of the repairs that say where characters were removed that a person does not see.
func hiding(r repairs) (notes []string) {
	for _, note := range r {
		if strings.HasSuffix(note, hiddenNote) {
			notes = append(notes, note)
		}
	}
	return notes
}
