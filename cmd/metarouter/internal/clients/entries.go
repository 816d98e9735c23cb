package clients

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/tailscale/hujson"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/jsonc"
	"github.com/mcp-metarouter/metarouter/internal/program"
)

// The functions of this file edit one of our own files, which is at path and has the
// content data; data is empty if the file does not exist yet. They return the new content.
// What they do not name stays as it is, byte for byte.

// roots are the keys under which package config finds servers.
var roots = []string{"mcpServers", "servers", "context_servers"}

// openOurs opens a file of ours. homes are the objects that have servers; the keys lead to
// the one that gets new ones.
func openOurs(path string, data []byte) (d *document, homes []*hujson.Value, keys []string, err error) {
	if d, err = open(path, data); err != nil {
		return nil, nil, nil, err
	}
	key, err := config.ServersKey(path, d.data)
	if err != nil {
		return nil, nil, nil, err
	}
	if key == "" { // the servers are in the file's object itself
		return d, []*hujson.Value{&d.root}, nil, nil
	}
	o := object(&d.root)
	for i := range o.Members {
		if m := &o.Members[i]; slices.Contains(roots, jsonc.Key(*m)) && object(&m.Value) != nil {
			homes = append(homes, &m.Value)
		}
	}
	return d, homes, []string{key}, nil
}

// entryOf returns the entry of that name that counts: the last one of the file.
func entryOf(homes []*hujson.Value, keys []string, name string) *hujson.ObjectMember {
	if keys == nil && name == "metarouter" { // the router's own settings
		return nil
	}
	for _, home := range slices.Backward(homes) {
		if m := member(home, name); m != nil && (keys != nil || object(&m.Value) != nil) {
			return m
		}
	}
	return nil
}

// editEntry has edit change the entry of that name, which must be an object.
func editEntry(path string, data []byte, name string, edit func(*document, *hujson.Value) error) ([]byte, error) {
	d, homes, keys, err := openOurs(path, data)
	if err != nil {
		return nil, err
	}
	m := entryOf(homes, keys, name)
	if m == nil || object(&m.Value) == nil {
		return nil, fmt.Errorf("%s has no server %q that is an object", path, name)
	}
	if err := edit(d, &m.Value); err != nil {
		return nil, err
	}
	return d.bytes(), nil
}

// PlaceOf returns the line and the column, both from 1, of the server's entry in our file.
// ok is false if it has none.
func PlaceOf(path string, data []byte, name string) (line, column int, ok bool, err error) {
	d, homes, keys, err := openOurs(path, data)
	if err != nil {
		return 0, 0, false, err
	}
	m := entryOf(homes, keys, name)
	if m == nil {
		return 0, 0, false, nil
	}
	before := d.data[:m.Name.StartOffset]
	return bytes.Count(before, []byte("\n")) + 1, len(before) - bytes.LastIndexByte(before, '\n'), true, nil
}

// PutServer makes entry, an object as JSON, the entry of that name: it replaces the present
// one, or adds it.
func PutServer(path string, data []byte, name, entry string) ([]byte, error) {
	d, homes, keys, err := openOurs(path, data)
	if err != nil {
		return nil, err
	}
	if keys == nil && (name == "metarouter" || slices.Contains(roots, name)) {
		return nil, fmt.Errorf("%s has its servers without \"mcpServers\" around them, so none can be called %q; choose another name", path, name)
	}
	value, err := written(entry)
	if err != nil {
		return nil, err
	}
	switch m := entryOf(homes, keys, name); {
	case m != nil:
		d.set(m, value)
	case len(data) == 0:
		d.add(&d.root, field{"$schema", text(schemaURL)}, field{keys[0], fields(field{name, value})})
	default:
		err = d.addServers(keys, field{name, value})
	}
	return d.bytes(), err
}

// written returns what writes an object of JSON that is indented by two spaces: in one line
// where the document is.
func written(entry string) (func(*document, string) string, error) {
	v, err := hujson.Parse([]byte(entry))
	if err != nil {
		return nil, fmt.Errorf("the entry: %s", strings.TrimPrefix(err.Error(), "hujson: "))
	}
	if object(&v) == nil {
		return nil, errors.New(`the entry must be an object; write {"command": "…", "args": ["…"]} or {"url": "…"}`)
	}
	entry = strings.TrimSpace(strings.ReplaceAll(entry, "\r\n", "\n"))
	indented := raw(entry, "  ")
	return func(d *document, indent string) string {
		if d.compact {
			v.Minimize()
			if d.spaced {
				space(&v)
			}
			return v.String()
		}
		return indented(d, indent)
	}, nil
}

// space puts spaces after colons and commas.
func space(v *hujson.Value) {
	blank := hujson.Extra(" ")
	switch value := v.Value.(type) {
	case *hujson.Object:
		for i := range value.Members {
			m := &value.Members[i]
			if m.Value.BeforeExtra = blank; i > 0 {
				m.Name.BeforeExtra = blank
			}
			space(&m.Value)
		}
	case *hujson.Array:
		for i := range value.Elements {
			if i > 0 {
				value.Elements[i].BeforeExtra = blank
			}
			space(&value.Elements[i])
		}
	}
}

// RemoveServer takes the entries of that name out of our file.
func RemoveServer(path string, data []byte, name string) ([]byte, error) {
	d, homes, _, err := openOurs(path, data)
	if err != nil {
		return nil, err
	}
	for _, home := range homes {
		d.remove(home, func(m hujson.ObjectMember) bool { return jsonc.Key(m) == name })
	}
	return d.bytes(), nil
}

// DisableServer disables or enables the server, with the key that its entry has for this:
// "enabled", or else "disabled".
func DisableServer(path string, data []byte, name string, disabled bool) ([]byte, error) {
	return editEntry(path, data, name, func(d *document, entry *hujson.Value) error {
		yes := func(value string) func(*document, string) string {
			return func(*document, string) string { return value }
		}
		enabled := member(entry, "enabled")
		switch {
		case disabled && enabled != nil:
			d.set(enabled, yes("false"))
		case disabled:
			d.putInLine(entry, field{"disabled", yes("true")})
		default:
			d.remove(entry, func(m hujson.ObjectMember) bool { return jsonc.Key(m) == "disabled" })
			if enabled != nil {
				d.set(enabled, yes("true"))
			}
		}
		return nil
	})
}

// putInLine is put, but in an object that is written in one line, the field is added there.
func (d *document) putInLine(v *hujson.Value, f field) {
	members := object(v).Members
	if member(v, f.key) != nil || len(members) == 0 || bytes.ContainsRune(d.data[v.StartOffset:v.EndOffset], '\n') {
		d.put(v, f)
		return
	}
	last := members[len(members)-1].Value
	if last.AfterExtra == nil {
		d.splice(last.EndOffset, last.EndOffset, ", "+d.text(f, ""))
		return
	}
	comma := last.EndOffset + len(last.AfterExtra)
	d.splice(comma+1, comma+1, " "+d.text(f, "")+",")
}

// SetArgument replaces an argument of the server's command, counted from 0.
func SetArgument(path string, data []byte, name string, index int, value string) ([]byte, error) {
	return editEntry(path, data, name, func(d *document, entry *hujson.Value) error {
		args := member(entry, "args")
		if command := member(entry, "command"); args == nil && command != nil {
			args = member(&command.Value, "args") // in Zed's dialect
		}
		if args != nil {
			if array, ok := args.Value.Value.(*hujson.Array); ok {
				elements := slices.DeleteFunc(slices.Clone(array.Elements), func(e hujson.Value) bool { return e.Value.Kind() == 'n' }) // as package config leaves them out
				index += shellWords(entry, elements)
				if index < len(elements) {
					d.splice(elements[index].StartOffset, elements[index].EndOffset, quoted(value))
					return nil
				}
			}
		}
		return fmt.Errorf("%s: server %q has no argument %d", path, name, index)
	})
}

// shellWords returns how many arguments of the entry are words of a Windows shell, such as "/c npx",
// which package config takes away on other systems.
func shellWords(entry *hujson.Value, elements []hujson.Value) int {
	_, command := stringAt(entry, "command")
	var words []string
	for _, e := range elements {
		word, _ := jsonc.Text(e)
		words = append(words, word)
	}
	if w, ok := program.ForWindows(command, words); ok && w.Known && runtime.GOOS != "windows" {
		if n := len(words) - len(w.Args); n >= 0 && slices.Equal(words[n:], w.Args) {
			return n
		}
		return len(words) // the command is in one argument
	}
	return 0
}

// A NewEntry is a server to be added: a command, or a URL.
type NewEntry struct {
	Command string
	Args    []string
	Env     [][2]string // names and values
	Cwd     string      // absolute, or "" for the router's own

	URL     string
	Type    string // "http", "sse", or "" for either
	Headers [][2]string
}

// Text returns the entry as it is written into the file at path.
func (e NewEntry) Text(path string) string {
	if e.URL != "" && e.Type == "" && filepath.Base(path) == ".mcp.json" {
		e.Type = "http" // Claude Code, which reads such a file too, takes an entry without it for a command
	}
	var all []field
	add := func(key, value string) {
		if value != "" {
			all = append(all, field{key, text(value)})
		}
	}
	dict := func(key string, pairs [][2]string) {
		var members []field
		for _, p := range pairs {
			members = append(members, field{p[0], text(p[1])})
		}
		if len(members) > 0 {
			all = append(all, field{key, fields(members...)})
		}
	}
	add("type", e.Type)
	add("command", e.Command)
	if len(e.Args) > 0 {
		all = append(all, field{"args", list(e.Args)})
	}
	dict("env", e.Env)
	add("cwd", e.Cwd)
	add("url", e.URL)
	dict("headers", e.Headers)
	return fields(all...)(&document{newline: "\n", unit: "  ", spaced: true}, "")
}
