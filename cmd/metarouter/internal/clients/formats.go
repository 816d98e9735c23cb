package clients

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/pelletier/go-toml/v2"

	"github.com/mcp-metarouter/metarouter/internal/lazy"
)

// The formats of files that are not JSON. Nothing is written into them, and YAML is not read either.
const (
	inTOML format = "TOML"
	inYAML format = "YAML"
)

// A format is the language of a client's file; "" is JSON.
type format string

const (
	maxTOML = 4 << 20 // bytes of a file
	maxOpen = 1000    // brackets that may be open, since the reader recurses
	maxKeys = 10_000  // keys, since the reader compares each with all others of its object
)

// Rewrites reports whether metarouter writes into the client's file.
func (c Client) Rewrites() bool { return c.format == "" }

// parse reads the file of a source. The document of a file in TOML has its servers only, and a document in YAML is empty.
func (s Source) parse() (*document, error) {
	switch s.Client.format {
	case "":
		return open(s.Path, s.Data)
	case inYAML:
		return open(s.Path, nil)
	}
	root, err := readTOML(s)
	if err != nil {
		return nil, err
	}
	data, err := json.Marshal(map[string]any{s.keys[0]: root[s.keys[0]]}) // null is as good as absent
	if err != nil {
		return nil, fmt.Errorf("%s: %q has a value that JSON can't have: %w", s.Path, s.keys[0], err)
	}
	return open(s.Path, data)
}

// readTOML reads a file in TOML. The errors have no values of it.
func readTOML(s Source) (root map[string]any, err error) {
	data := bytes.TrimPrefix(s.Data, bom)
	if len(data) > maxTOML {
		return nil, fmt.Errorf("%s is larger than %d MiB", s.Path, maxTOML>>20)
	}
	if bytes.Count(data, []byte("="))+bytes.Count(data, []byte("\n[")) > maxKeys { // a dotted key counts once
		return nil, fmt.Errorf("%s has more than %d keys; remove those that are not needed", s.Path, maxKeys)
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
	if err = toml.Unmarshal(data, &root); err != nil {
		line, column := 0, 0
		if at, ok := errors.AsType[*toml.DecodeError](err); ok {
			line, column = at.Position()
		}
		return nil, fmt.Errorf("%s is no TOML that can be read (line %d, column %d); correct it", s.Path, line, column)
	}
	return root, nil
}

// bareKey matches a key that TOML and YAML have without quotes.
var bareKey = lazy.Regexp(`^[A-Za-z_][A-Za-z0-9_-]*$`)

// Lines returns the lines of our entries for a client's file in TOML or YAML, which a person writes there.
func Lines(c Client, e RouterEntry, places []Place) (lines []string) {
	colon, indent := " = ", ""
	if c.format == inYAML {
		colon, indent = ": ", "    "
	}
	for _, p := range places {
		name := p.Name
		if !bareKey().MatchString(name) {
			name = quoted(name)
		}
		if c.format == inYAML {
			lines = append(lines, c.keys[0]+":", "  "+name+":")
		} else {
			lines = append(lines, "["+c.keys[0]+"."+name+"]")
		}
		e.Only = p.Server
		for _, one := range c.written(e, nil) { // a string or an array of JSON is one of TOML and of YAML too
			lines = append(lines, indent+one.key+colon+alone.write(one.value))
		}
	}
	return lines
}
