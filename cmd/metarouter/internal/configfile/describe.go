package configfile

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/tailscale/hujson"

	"github.com/mcp-metarouter/metarouter/internal/jsonc"
	"github.com/mcp-metarouter/metarouter/internal/script/stored"
	"github.com/mcp-metarouter/metarouter/internal/trustfile"
)

const (
	hidden   = "•••" // in place of a secret that is written in the file
	maxLines = 1000  // of a description
	maxValue = 1000  // bytes of a value
	maxWords = 200   // of a list
)

// Describe shows all keys of a text of [config.LoadText], in the order of the files. Variables are not replaced by their values. Values of keys and of arguments that are named like a secret are
// hidden. Words of the file are quoted, so that they can't move the cursor.
//
// since says how the text differs from the text that was approved before; nil if that is not known.
// Parts that differ are marked as new or edited.
func Describe(t trustfile.Text, since *trustfile.Untrusted) string {
	p := page{marks: make(map[string]string)}
	if since != nil && since.Before {
		for _, name := range since.Added {
			p.marks[name] = "new"
		}
		for _, name := range since.Edited {
			p.marks[name] = "edited"
		}
		if since.Settings {
			p.settings = "edited"
		}
	}
	for i, root := range t.Objects {
		if len(t.Files) > 1 {
			p.line("%s:", Quote(t.Files[i]))
		}
		p.file(root)
		for _, s := range t.Scripts[i] {
			p.script(s)
		}
	}
	if p.cut || p.lines > maxLines {
		p.text.WriteString("This is not all: READ THE FILE before you approve it.\n")
	}
	return p.text.String()
}

// A page is the description as far as it is written.
type page struct {
	text  strings.Builder
	lines int  // if more than maxLines, the rest is not written
	cut   bool // something is not shown that should be

	marks    map[string]string // of the servers that differ from the approved text, by name
	settings string            // the mark of "metarouter"
}

func (p *page) line(format string, args ...any) {
	if p.lines++; p.lines <= maxLines {
		fmt.Fprintf(&p.text, "  "+format+"\n", args...)
	}
}

func (p *page) file(root *hujson.Object) {
	for _, m := range root.Members {
		servers, isObject := m.Value.Value.(*hujson.Object)
		switch key := jsonc.Key(m); {
		case key == "metarouter":
			p.section(key, "metarouter:", p.settings, m.Value)
		case isObject && (key == "mcpServers" || key == "servers" || key == "context_servers"):
			for _, s := range servers.Members {
				p.server(jsonc.Key(s), s.Value)
			}
		default: // a server of a file without such a key, or a mistake
			p.server(key, m.Value)
		}
	}
}

func (p *page) server(name string, v hujson.Value) { p.section(name, Quote(name), p.marks[name], v) }

// script shows a stored script without its code.
func (p *page) script(s stored.Script) {
	p.section("", Quote(s.File), p.marks[s.File], hujson.Value{Value: hujson.String(s.Description)})
	p.line("  (a script of %d bytes that runs with the rights of each caller; you approve all of it: read the file)", len(s.Code))
}

// section writes a part below its title.
func (p *page) section(key, title, mark string, v hujson.Value) {
	if mark != "" {
		title += " (" + mark + ")"
	}
	p.line("%s", title)
	if v.Value.Kind() == '{' {
		key = ""
	}
	p.value(key, "", v)
}

// value shows the value at a path of keys. within is the first key of the path.
func (p *page) value(path, within string, v hujson.Value) {
	switch value := v.Value.(type) {
	case *hujson.Object:
		for _, m := range value.Members {
			if p.lines > maxLines { // else a long path is made for each of many values
				return
			}
			at := p.short(jsonc.Key(m))
			if path != "" {
				at = path + "." + at
			}
			p.value(at, path, m.Value)
		}
		if len(value.Members) == 0 && path != "" {
			p.show(path, "{}")
		}
	case *hujson.Array:
		if slices.ContainsFunc(value.Elements, func(e hujson.Value) bool { return e.Value.Kind() == '{' || e.Value.Kind() == '[' }) {
			for i, e := range value.Elements {
				p.value(fmt.Sprintf("%s[%d]", path, i), within, e)
			}
			return
		}
		words, before := make([]string, len(value.Elements)), ""
		for i, e := range value.Elements {
			words[i] = p.word(path, within, before, e)
			before = e.Value.(hujson.Literal).String()
		}
		if len(words) == 0 {
			words = []string{"[]"}
		}
		if more := len(words) - maxWords; more > 0 {
			p.cut = true
			words = append(words[:maxWords], fmt.Sprintf("… %d more words", more))
		}
		p.show(path, strings.Join(words, " "))
	case hujson.Literal:
		p.show(path, p.word(path, within, "", v))
	}
}

// show writes the line of a value.
func (p *page) show(path, text string) {
	if path == "" { // a script
		path = "is"
	}
	p.line("  %-14s %s", p.short(Quote(path)), text)
}

// word returns a value that is neither an object nor an array. before is the word before it in a list.
func (p *page) word(path, within, before string, v hujson.Value) string {
	said := v.Value.(hujson.Literal)
	switch kind := said.Kind(); {
	case kind == '0' && masked(path, within, before, "0") != "0":
		return hidden
	case kind != '"':
		return p.short(said.String())
	}
	return p.short(Quote(masked(path, within, before, said.String())))
}

// short cuts the middle out of a long word.
func (p *page) short(word string) string {
	if len(word) <= maxValue {
		return word
	}
	p.cut = true
	const end = 200
	begin, last := word[:maxValue-end], word[len(word)-end:]
	return fmt.Sprintf("%s … %d more bytes … %s", strings.ToValidUTF8(begin, ""), len(word)-maxValue, strings.ToValidUTF8(last, ""))
}

// Quote returns a word unchanged if it is printable and has no space, else quoted.
func Quote(word string) string {
	plain := func(r rune) bool { return unicode.IsPrint(r) && r != ' ' && r != '"' && r != unicode.ReplacementChar }
	if word != "" && !strings.ContainsFunc(word, func(r rune) bool { return !plain(r) }) {
		return word
	}
	return strconv.Quote(word)
}
