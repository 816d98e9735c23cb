package discovery

import (
	"fmt"
	"strings"

	"github.com/tailscale/hujson"

	"github.com/mcp-metarouter/metarouter/internal/jsonc"
	"github.com/mcp-metarouter/metarouter/internal/lazy"
	"github.com/mcp-metarouter/metarouter/internal/plain"
	"github.com/mcp-metarouter/metarouter/internal/prose"
)

// orders matches words that are no description of a tool, but orders to the model that reads it, and
// marks that a person does not see where Markdown or HTML is shown. Real servers write "always use this
// tool to …" and "you must call X first", so these do not match.
var orders = lazy.Regexp(`(?i)` + strings.ReplaceAll(strings.Join([]string{
	`\b(?:ignore|disregard|forget|override) (?:(?:all|any|every|of|the|your|my|these|those) )*(?:previous|prior|above|earlier|preceding|former|system|developer|safety) (?:\w+ )?(?:instruction|rule|prompt|direction|guideline|command)s?\b`,
	`\balways (?:use|call|choose|pick|prefer|select) (?:this|me)(?: one| tool| function| server)?\s*(?:[.,;:!)]|$|instead\b|over (?:any|all|every)\b|and (?:not|never)\b)`,
	`\b(?:do not|don['’]t|never) (?:ever )?(?:use|call|choose) (?:any|the|all) other (?:tool|server|function)s?\b`,
	`\b(?:do not|don['’]t|never) (?:ever )?(?:tell|inform|notify|alert|warn|mention|reveal|disclose|show) (?:(?:this|that|it|any|anything|of|about|to) )*the user\b`,
	`\bwithout (?:telling|informing|notifying|alerting|warning) the user\b`,
	`<!--`, `</?(?:important|system|secret|hidden)>`,
}, "|"), " ", `\s+`))

const (
	maxSuspects = 5  // texts of a tool
	maxWords    = 80 // characters of each that are shown
)

// suspects adds the strings of a value that give a model orders, with their place and the words.
func suspects(found []string, place string, v hujson.Value) []string {
	switch of := v.Value.(type) {
	case hujson.Literal:
		text, _ := jsonc.Text(v)
		at := orders().FindStringIndex(text)
		if at == nil || len(found) == maxSuspects {
			return found
		}
		words := []rune(plain.Line(text[at[0]:]))
		if len(words) > maxWords {
			words = append(words[:maxWords], '…')
		}
		found = append(found, fmt.Sprintf("%s: %q", plain.Line(strings.TrimPrefix(place, ".")), string(words)))
	case *hujson.Object:
		for _, m := range of.Members {
			found = suspects(found, place+".name", m.Name)
			found = suspects(found, place+"."+jsonc.Key(m), m.Value)
		}
	case *hujson.Array:
		for _, e := range of.Elements {
			found = suspects(found, place, e)
		}
	}
	return found
}

// maxInstructions bounds the bytes of a server's instructions.
const maxInstructions = 8 << 10

// instructions returns a server's instructions as models may read them, and the words in them that give orders, or hid.
func instructions(text string) (shown string, suspect []string) {
	if shown = plain.Visible(text); shown != text {
		suspect = []string{"instructions: " + hiddenNote}
	}
	shown = prose.Cut(strings.TrimSpace(shown), maxInstructions+len("…"))
	return shown, suspects(suspect, "instructions", hujson.Value{Value: hujson.String(shown)})
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
