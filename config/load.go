package config

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tailscale/hujson"

	"github.com/mcp-metarouter/metarouter/internal/program"
	"github.com/mcp-metarouter/metarouter/internal/secret"
)

// Load reads the files. Later files win, for each server and for each key of "metarouter".
// An entry that is overridden is not decoded.
//
// The error says that a file can't be read, or is a Problem: the file is not an object of
// JSON with comments. Other mistakes are in Config.Problems.
func Load(paths ...string) (Config, error) { return load(paths, system()) }

// Read is Load for one file whose text is data. The file at path need not exist.
func Read(path string, data []byte) (Config, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return Config{}, fmt.Errorf("read config: %w", err)
	}
	s, err := parse(path, data)
	if err != nil {
		return Config{}, err
	}
	return assemble([]source{s}, system()), nil
}

// ServersKey returns the key under which a file has its servers, or "" if they are in the
// file's object itself. For a file without servers it returns "mcpServers". The error is a
// Problem: the data is not an object of JSON with comments.
func ServersKey(path string, data []byte) (string, error) {
	s, err := parse(path, data)
	if err != nil {
		return "", err
	}
	if s.bare() {
		return "", nil
	}
	for _, key := range roots {
		if slices.ContainsFunc(s.root.Members, func(m hujson.ObjectMember) bool { return keyOf(m) == key }) {
			return key, nil
		}
	}
	return roots[0], nil
}

// An environment is what Load needs of the system. Tests bring their own, so that decoding
// is pure.
type environment struct {
	lookup     func(name string) (string, bool)
	readFile   func(path string) ([]byte, error)
	lookPath   func(program string) (string, error)
	home       string // of the user, "" if unknown
	executable string // of this process, "" if unknown
}

func system() environment {
	home, _ := os.UserHomeDir()
	executable, _ := os.Executable()
	return environment{secret.LookupEnv, os.ReadFile, program.Look, home, executable}
}

func load(paths []string, env environment) (Config, error) {
	var sources []source
	for _, path := range paths {
		path, err := filepath.Abs(path)
		if err != nil {
			return Config{}, fmt.Errorf("read config: %w", err)
		}
		data, err := env.readFile(path)
		if err != nil {
			return Config{}, fmt.Errorf("read config: %w", err)
		}
		s, err := parse(path, data)
		if err != nil {
			return Config{}, err
		}
		sources = append(sources, s)
	}
	return assemble(sources, env), nil
}

// assemble decodes all "metarouter" objects before the first server, since servers inherit
// from them.
func assemble(sources []source, env environment) Config {
	c := Config{Router: defaultRouter()}
	d := &decoder{env: env}
	var entries []entry
	place := make(map[string]int) // of a server in entries, by its name
	for _, s := range sources {
		c.Files = append(c.Files, s.path)
		c.digests = append(c.digests, s.digest())
		d.source = s
		for _, e := range entriesOf(d, &c.Router) {
			if i, again := place[e.name]; again {
				entries[i] = e
				continue
			}
			place[e.name] = len(entries)
			entries = append(entries, e)
		}
	}
	if h := c.Router.HTTP; (h.TLSCert == "") != (h.TLSKey == "") {
		d.source = d.tls.source
		d.warn(d.tls.offset, `"tlsCert" and "tlsKey" need each other; write both or neither`)
	}
	for _, e := range entries {
		c.Servers = append(c.Servers, d.server(e, c.Router))
	}
	checkAskedServer(d, c)
	checkTokens(d, c)
	c.Problems = d.problems
	slices.SortStableFunc(c.Problems, func(a, b Problem) int {
		return cmp.Or(
			cmp.Compare(slices.Index(c.Files, a.File), slices.Index(c.Files, b.File)),
			cmp.Compare(a.Line, b.Line),
			cmp.Compare(a.Column, b.Column))
	})
	return c
}

// A source is the syntax tree of one file.
type source struct {
	path string
	data []byte
	root *hujson.Object
}

// maxDepth is the deepest nesting, since the parser recurses.
const maxDepth = 1000

func parse(path string, data []byte) (source, error) {
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	s := source{path: path, data: data}
	if len(bytes.TrimSpace(data)) == 0 {
		return s, s.problem(0, `the file is empty; write {"mcpServers": {}}`)
	}
	if at, deep := tooDeep(data); deep {
		return s, s.problem(at, "more than %d brackets are open here; write fewer", maxDepth)
	}
	// The parser demands a newline after a comment at the very end.
	value, err := hujson.Parse(append(slices.Clip(data), '\n'))
	if err != nil {
		return s, s.syntaxError(err)
	}
	root, ok := value.Value.(*hujson.Object)
	if !ok {
		return s, s.problem(value.StartOffset, `the file must hold an object; write {"mcpServers": {}}`)
	}
	s.root = root
	return s, nil
}

// tooDeep counts brackets, including those in strings and comments: it only has to tell a
// configuration from an attack.
func tooDeep(data []byte) (at int, deep bool) {
	depth := 0
	for i, c := range data {
		switch c {
		case '{', '[':
			if depth++; depth > maxDepth {
				return i, true
			}
		case '}', ']':
			depth--
		}
	}
	return 0, false
}

// syntaxError returns the parser's error with its place, which the parser has only as text,
// and with a correction. The literal that the parser quotes is dropped: it may be a secret.
func (s source) syntaxError(err error) Problem {
	var line, column int
	message := err.Error()
	if n, _ := fmt.Sscanf(message, "hujson: line %d, column %d:", &line, &column); n == 2 {
		message = strings.SplitN(message, ": ", 3)[2]
	}
	if literal := "invalid literal"; strings.HasPrefix(message, literal) {
		message = literal
	}
	offset := max(column-1, 0)
	for i, l := range bytes.SplitAfter(s.data, []byte("\n")) {
		if i < line-1 {
			offset += len(l)
		}
	}
	return s.problem(offset, "%s; %s", message, s.advice(offset))
}

func (s source) advice(offset int) string {
	if offset >= len(s.data) {
		return "close every quote, bracket and brace"
	}
	switch s.data[offset] {
	case '\'', '`':
		return "write double quotes"
	case '=':
		return "write a colon between a key and its value"
	case '"', '{', '[':
		return "is a comma missing before it, or a backslash not doubled?"
	case '}', ']', ',', ':':
		return "is a value missing before it, or a bracket closed twice?"
	case '/':
		return "write comments as // … or /* … */"
	default:
		return "write keys and strings in double quotes"
	}
}

// problem returns a Problem at a byte of the source.
func (s source) problem(offset int, format string, args ...any) Problem {
	before := s.data[:min(offset, len(s.data))]
	return Problem{
		File:    s.path,
		Line:    bytes.Count(before, []byte("\n")) + 1,
		Column:  len(before) - bytes.LastIndexByte(before, '\n'),
		Message: fmt.Sprintf(format, args...),
	}
}
