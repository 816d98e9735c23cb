package clients

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"go.yaml.in/yaml/v3"

	"github.com/mcp-metarouter/metarouter/internal/lazy"
)

// The formats of files that are not JSON. Servers are read from them, and nothing is written into them.
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

// Rewrites reports whether metarouter writes into the client's file.
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

// bareKey matches a key that TOML and YAML have without quotes.
var bareKey = lazy.Regexp(`^[A-Za-z_][A-Za-z0-9_-]*$`)

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

// Lines returns the lines of our entry of this name for a client's file in TOML or YAML, which a person writes there; nil if the file
// has the entry already. An entry for all servers that starts another program is an error.
func Lines(c Client, s Source, name string, e RouterEntry) ([]string, error) {
	d, v, err := serversOf(c, s)
	if err != nil {
		return nil, err
	}
	if m := member(v, name); m != nil {
		if err := notOurs(c, s, d, *m); err != nil && e.Only == "" {
			return nil, err
		}
		if !slices.ContainsFunc(c.written(e, stringsOf(member(&m.Value, "args"))), func(f field) bool {
			old := member(&m.Value, f.key)
			return old == nil || !equal(old.Value, d.write(f.value, ""))
		}) {
			return nil, nil
		}
	}
	return c.format.lines(s.keys[0], name, c.written(e, nil)), nil
}

// lines returns our entry as it is written into the file.
func (f format) lines(key, name string, all fields) []string {
	colon, indent := ": ", "    "
	if !bareKey().MatchString(name) {
		name = quoted(name)
	}
	lines := []string{key + ":", "  " + name + ":"}
	if f == inTOML {
		lines, colon, indent = []string{"[" + key + "." + name + "]"}, " = ", ""
	}
	for _, one := range all { // a string or an array of JSON is one of TOML and of YAML too
		lines = append(lines, indent+one.key+colon+oneLine.write(one.value, ""))
	}
	return lines
}
