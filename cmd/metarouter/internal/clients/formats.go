package clients

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"go.yaml.in/yaml/v3"

	"github.com/mcp-metarouter/metarouter/internal/secret"
)

// The formats of files that are not JSON. Servers are read from them, and entries are added as
// lines, so that all else stays as it is.
const (
	inTOML format = "TOML"
	inYAML format = "YAML"
)

// A format is the language of a client's file; "" is JSON.
type format string

const (
	maxLinesFile  = 4 << 20 // bytes of a file in TOML or YAML
	maxOpen       = 1000    // brackets that may be open in TOML, whose reader recurses
	maxKeys       = 10_000  // keys, since the readers compare each with all others of its object
	maxDirectives = 100     // of YAML, for the same reason
)

// Rewrites reports whether entries of other servers can be taken out of the client's file.
func (c Client) Rewrites() bool { return c.format == "" }

// openSource opens the file of a source. The document of a file in TOML or YAML has its servers only.
func openSource(c Client, s Source) (*document, error) {
	if c.format == "" {
		return open(s.Path, s.Data)
	}
	root, err := c.format.decode(s)
	if err != nil {
		return nil, err
	}
	servers := root[s.keys[0]]
	if servers == nil {
		servers = map[string]any{}
	}
	data, err := json.MarshalIndent(map[string]any{s.keys[0]: servers}, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("%s: %q has a value that JSON can't have: %w", s.Path, s.keys[0], err)
	}
	return open(s.Path, data)
}

// decode reads a file in TOML or YAML. The errors have no values of it.
func (f format) decode(s Source) (map[string]any, error) {
	data := bytes.TrimPrefix(s.Data, bom)
	if len(data) > maxLinesFile {
		return nil, fmt.Errorf("%s is larger than %d MiB", s.Path, maxLinesFile>>20)
	}
	var root map[string]any
	if f == inYAML {
		var doc yaml.Node
		if bytes.Count(data, []byte("\n%")) > maxDirectives {
			return nil, fmt.Errorf("%s has more than %d directives, lines that begin with %%; remove them", s.Path, maxDirectives)
		}
		err := yaml.Unmarshal(data, &doc)
		if keysOf(&doc) > maxKeys {
			return nil, fmt.Errorf(tooManyKeys, s.Path, maxKeys)
		}
		if err == nil {
			err = doc.Decode(&root)
		}
		if err != nil {
			return nil, fmt.Errorf("%s is no YAML that can be read (%s); correct it", s.Path, lineIn(err))
		}
		return root, nil
	}
	if bytes.Count(data, []byte("="))+bytes.Count(data, []byte("\n[")) > maxKeys { // a dotted key counts once
		return nil, fmt.Errorf(tooManyKeys, s.Path, maxKeys)
	}
	depth := 0
	for _, b := range data {
		switch b {
		case '[', '{':
			depth++
		case ']', '}':
			depth = max(depth-1, 0)
		}
		if depth > maxOpen {
			return nil, fmt.Errorf("%s: more than %d brackets are open at the same place", s.Path, maxOpen)
		}
	}
	if err := toml.Unmarshal(data, &root); err != nil {
		return nil, fmt.Errorf("%s is no TOML that can be read (%s); correct it", s.Path, lineIn(err))
	}
	return root, nil
}

const tooManyKeys = "%s has more than %d keys; remove those that are not needed"

// keysOf returns the number of keys and aliases in YAML.
func keysOf(n *yaml.Node) (keys int) {
	switch n.Kind {
	case yaml.MappingNode:
		keys = len(n.Content) / 2
	case yaml.AliasNode: // of a map that may be merged
		keys = 1
	}
	for _, child := range n.Content {
		keys += keysOf(child)
	}
	return keys
}

// lineIn returns the line of an error of a reader, which may quote the file.
func lineIn(err error) string {
	if at, ok := errors.AsType[*toml.DecodeError](err); ok {
		line, column := at.Position()
		return fmt.Sprintf("line %d, column %d", line, column)
	}
	line := 0
	_, rest, _ := strings.Cut(err.Error(), "line ")
	fmt.Sscan(rest, &line)
	return fmt.Sprintf("line %d", line)
}

// installLines is [Install] for a file in TOML or YAML. A change that would
// touch other lines is an error that has the lines to write.
func installLines(c Client, s Source, e RouterEntry) ([]byte, error) {
	d, err := openSource(c, s)
	if err != nil {
		return nil, err
	}
	lines := c.format.lines(s.keys[0], c.written(e, nil))
	v, err := d.servers(s.keys)
	if err != nil {
		return nil, err
	}
	if m := member(v, EntryName); v != nil && m != nil {
		if err := notOurs(c, s, d, *m); err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(c.written(e, stringsOf(member(&m.Value, "args"))), func(f field) bool {
			old := member(&m.Value, f.key)
			return old == nil || !equal(old.Value, d.write(f.value, ""))
		}) {
			return s.Data, nil
		}
		return nil, fmt.Errorf("%s has another entry %q, which metarouter does not change, since it does not rewrite %s; replace it by these lines:\n%s", s.Path, EntryName, c.format, strings.Join(lines, "\n"))
	}
	newline := "\n"
	if bytes.Contains(s.Data, []byte("\r\n")) {
		newline = "\r\n"
	}
	text := string(s.Data)
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += newline
	}
	result := Source{Path: s.Path, keys: s.keys, Data: []byte(insertLines(text, c.format.insertAt(s, len(text)), lines, newline))}
	if !c.format.adds(s, result) {
		return nil, fmt.Errorf("%s is written in a way in which no entry can be added to it safely; add these lines by hand:\n%s", s.Path, strings.Join(lines, "\n"))
	}
	return result.Data, nil
}

// adds reports whether the new content has our entry and nothing else that the old one has not.
func (f format) adds(before, after Source) bool {
	was, err := f.decode(before)
	is, wrong := f.decode(after)
	if err != nil || wrong != nil {
		return false
	}
	servers, _ := is[after.keys[0]].(map[string]any)
	if servers[EntryName] == nil {
		return false
	}
	if delete(servers, EntryName); len(servers) == 0 && was[before.keys[0]] == nil {
		delete(is, after.keys[0])
		delete(was, before.keys[0])
	}
	return len(was) == 0 && len(is) == 0 || reflect.DeepEqual(was, is)
}

// lines returns our entry as it is written into the file.
func (f format) lines(key string, all fields) []string {
	colon, indent := ": ", "    "
	lines := []string{key + ":", "  " + EntryName + ":"}
	if f == inTOML {
		lines, colon, indent = []string{"[" + key + "." + EntryName + "]"}, " = ", ""
	}
	for _, one := range all { // a string or an array of JSON is one of TOML and of YAML too
		lines = append(lines, indent+one.key+colon+oneLine.write(one.value, ""))
	}
	return lines
}

// A gap is between two lines of a file.
type gap struct {
	offset int    // in bytes
	indent string // of the present entries of YAML; "" without any
}

// insertAt returns the place of the entry in a file of so many bytes: at the end, or in YAML before
// the first entry.
func (f format) insertAt(s Source, end int) gap {
	var doc yaml.Node
	if f != inYAML || yaml.Unmarshal(s.Data, &doc) != nil || len(doc.Content) == 0 {
		return gap{offset: end}
	}
	pairs := doc.Content[0].Content
	for i := 0; i+1 < len(pairs); i += 2 {
		if key, value := pairs[i], pairs[i+1]; key.Value == s.keys[0] {
			at, indent := lineStart(s.Data, key.Line), "  "
			if len(value.Content) > 0 {
				indent = strings.Repeat(" ", value.Content[0].Column-1)
			}
			if at == len(s.Data) {
				at = end
			}
			return gap{at, indent}
		}
	}
	return gap{offset: end}
}

// insertLines returns the text with the lines of our entry at a place.
func insertLines(text string, at gap, lines []string, newline string) string {
	lines = slices.Clone(lines)
	before, after := text[:at.offset], text[at.offset:]
	switch {
	case at.indent != "": // the key is there
		lines = lines[1:]
		for i, line := range lines {
			depth := (len(line) - len(strings.TrimLeft(line, " "))) / 2
			lines[i] = strings.Repeat(at.indent, depth) + strings.TrimLeft(line, " ")
		}
	case before != "":
		before += newline
	}
	return before + strings.Join(lines, newline) + newline + after
}

// maskedLines is masked for TOML and YAML: all but the names of tables and our entry is hidden, whose values are shown
// as those of JSON.
func maskedLines(f format, data []byte) (shown []string) {
	ours, depth, level := false, 0, 0 // in our entry; its indentation, and that of its keys
	for _, line := range lines(data) {
		text := strings.TrimSpace(line)
		indent := line[:len(line)-len(strings.TrimLeft(line, " \t"))]
		isHead := text == "" || line == "extensions:"
		switch {
		case f == inTOML && strings.HasPrefix(text, "[") && strings.HasSuffix(text, "]") && !strings.ContainsAny(text, `"',`):
			ours, depth, level, isHead = strings.HasSuffix(text, "."+EntryName+"]"), -1, len(indent), true
		case text == EntryName+":":
			ours, depth, level, isHead = true, len(indent), -1, true
		case ours && text != "" && len(indent) <= depth:
			ours = false
		}
		if at := strings.IndexAny(text, ":="); !isHead && ours && at > 0 && (level < 0 || level == len(indent)) {
			level = len(indent)
			text = text[:at+1] + " " + maskedValue(strings.TrimSpace(text[:at]), strings.TrimSpace(text[at+1:]))
		} else if !isHead {
			text = hidden
		}
		shown = append(shown, indent+secret.HideMaybe(text, hidden))
	}
	return shown
}
