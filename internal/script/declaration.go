package script

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/mcp-metarouter/metarouter/internal/prose"
	schemas "github.com/mcp-metarouter/metarouter/internal/schema"
	"github.com/mcp-metarouter/metarouter/internal/wire"
)

// A Tool is what a declaration says.
type DeclaredTool struct {
	ID          string // server:tool
	Description string // may be ""
	Reads       bool   // it changes nothing

	Input  json.RawMessage // the JSON Schema of the arguments
	Output json.RawMessage // the JSON Schema of the structured content; nil if the tool declares none
}

// A Detail bounds a declaration.
type Detail struct {
	Description int // bytes of the tool's description
	Comment     int // bytes of the description of each property; 0 leaves these out
	Depth       int // objects and arrays in each other; the type of deeper ones is any
	Size        int // bytes of the types, about
}

// The details of a declaration that is read alone, of one among others, and of one in a line.
var (
	Full  = Detail{Description: 8 << 10, Comment: 400, Depth: 8, Size: 16 << 10}
	Brief = Detail{Description: 200, Depth: 5, Size: 4 << 10}
	Line  = Detail{Description: 200, Depth: 2, Size: 1 << 10}
)

// Each calls describe with each of the ids once. It fails if there are too many, if describe fails, and when ctx ends.
func Each(ctx context.Context, ids []string, describe func(id string) error) error {
	const most = 20 // so that an answer has at most as many declarations, each with its own bound
	if len(ids) > most {
		return fmt.Errorf("%d ids are too many; send at most %d at a time", len(ids), most)
	}
	for i, id := range ids {
		if slices.Contains(ids[:i], id) {
			continue
		}
		if err := describe(id); err != nil || ctx.Err() != nil {
			return cmp.Or(context.Cause(ctx), err)
		}
	}
	return nil
}

// Declare returns the declaration of a call of the tool, such as
//
//	/** Lists issues. Reads only. */
//	declare function call(tool: "github:list_issues", args: { repo: string; limit?: number }): Promise<{ title: string }[]>;
func Declare(t DeclaredTool, d Detail) string {
	about := note(t.Description, d.Description)
	if t.Reads {
		if last, _ := utf8.DecodeLastRuneInString(about); unicode.IsLetter(last) || unicode.IsDigit(last) {
			about += "."
		}
		about = strings.TrimSpace(about + " Reads only.")
	}
	if about != "" {
		about = "/** " + about + " */\n"
	}
	w := newWriter(d)
	mark, args := w.arguments(t.Input)
	w.sent = false
	result := "any"
	if t.Output != nil {
		result = w.of(t.Output)
	}
	return about + "declare function call(tool: " + string(wire.AppendString(nil, t.ID)) + ", args" + mark + ": " + args + "): Promise<" + result + ">;"
}

// Signature returns the tool of a server in one line, such as
//
//	list_issues({ repo: string; limit?: number }) → { title: string }[]
func Signature(name string, input, output []byte) string {
	line := name
	if _, args := newWriter(Line).arguments(input); args == "{}" {
		line += "()"
	} else {
		line += "(" + args + ")"
	}
	if result := Result(output); result != "" {
		line += " → " + result
	}
	return line
}

// Result returns the type of a tool's structured content in one short line; "" if the schema, which may
// be nil, says nothing.
func Result(output []byte) string {
	if text := newWriter(Detail{Depth: 2, Size: 200}).of(output); text != "any" {
		return text
	}
	return ""
}

// arguments returns the type of the arguments, and "?" if none is required.
func (w *writer) arguments(schema []byte) (mark, args string) {
	n := read(schema)
	if w.sent = true; len(schemas.Required(n["properties"], n["required"])) == 0 {
		mark = "?"
	}
	args = w.of(schema)
	if (args == "any" || args == "Record<string, any>") && !n.has("additionalProperties", "patternProperties", "$ref", "allOf", "anyOf", "oneOf") {
		args = "{}"
	}
	return mark, args
}

// note returns at most so many bytes of a text, and "…", for a comment, which it does not end.
func note(text string, most int) string {
	return strings.ReplaceAll(prose.Cut(strings.TrimSpace(text), most+len("…")), "*/", `*\/`)
}

// comment returns the comment before a property, "" if there is nothing to say.
func (w *writer) comment(property []byte) string {
	if w.Comment == 0 {
		return ""
	}
	text, _ := wire.String(wire.Member(property, "description"))
	text = note(strings.Join(strings.Fields(text), " "), w.Comment)
	if value, ok := w.literal(wire.Member(property, "default")); ok && value != "null" {
		if text != "" && !strings.HasSuffix(text, ".") {
			text += "."
		}
		text = strings.TrimSpace(text + " Default: " + note(value, maxLiteral))
	}
	if text == "" {
		return ""
	}
	return "/** " + text + " */ "
}
