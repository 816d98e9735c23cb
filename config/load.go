package config

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/tailscale/hujson"

	"github.com/mcp-metarouter/metarouter/internal/program"
	"github.com/mcp-metarouter/metarouter/internal/safefile"
	"github.com/mcp-metarouter/metarouter/internal/secret"
)

// Load reads the files. Later files win, for each server and for each key of "metarouter".
// An entry that is overridden is not decoded.
//
// The error says that a file can't be read, or is a Problem: the file is not an object of
// JSON with comments, is too large, or hides what it restricts (see guards). Other mistakes are in Config.Problems.
func Load(paths ...string) (Config, error) { return load(paths, system()) }

// LoadText is Load for files that are not trusted yet: it looks at nothing but the files.
// Variables stay as they are written, no envFile is read, and paths stay relative. Use
// [Config.Expand] once the text is trusted.
func LoadText(paths ...string) (Config, error) {
	return load(paths, environment{readFile: readFile, asWritten: true})
}

// Expand returns what Load would have returned for the text that LoadText has read.
func (c Config) Expand() Config {
	if c.sources == nil {
		return c // it is expanded
	}
	c, _ = assemble(c.sources, system()) // LoadText has returned the error, which is about the text
	return c
}

// Read is Load for one file whose text is data. The file at path need not exist.
func Read(path string, data []byte) (Config, error) { return read(path, data, system()) }

// ReadText is LoadText for one file whose text is data. The file at path need not exist.
func ReadText(path string, data []byte) (Config, error) {
	return read(path, data, environment{asWritten: true})
}

func read(path string, data []byte, env environment) (Config, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return Config{}, fmt.Errorf("read config: %w", err)
	}
	s, err := parse(path, data)
	if err != nil {
		return Config{}, err
	}
	return assemble([]source{s}, env)
}

// ServersKey returns the key under which a file has its servers, or "" if they are in the
// file's object itself. For a file without servers it returns "mcpServers". The error is a
// Problem: the data is not an object of JSON with comments.
func ServersKey(path string, data []byte) (string, error) {
	s, err := parseWithin(path, data, len(data)) // the client reads the file, of whatever size
	if err != nil {
		return "", err
	}
	if s.bare {
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

	windows   bool // a command line for Windows runs as it is written
	asWritten bool // the text is not trusted: the system is not asked for anything
}

func system() environment {
	home, _ := os.UserHomeDir()
	executable, _ := os.Executable()
	return environment{lookup: secret.LookupEnv, readFile: readFile, lookPath: program.Look, windows: runtime.GOOS == "windows", home: home, executable: executable}
}

// maxFile is the most bytes of a configuration file or an envFile.
const maxFile = 4 << 20

func readFile(path string) ([]byte, error) {
	data, err := safefile.Read(path, maxFile)
	return safefile.UTF8(data), err
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
	return assemble(sources, env)
}

// maxServers is the most servers of all files together. Each costs memory and time even if
// it never starts.
const maxServers = 2000

// assemble decodes all "metarouter" objects before the first server, since servers inherit
// from them. The error is a Problem.
func assemble(sources []source, env environment) (Config, error) {
	c := Config{Router: defaultRouter()}
	if env.asWritten {
		c.sources = sources
	}
	d := &decoder{profiles: make(map[string]said)}
	d.env, d.last = env, make(map[string]said)
	var entries []entry
	place := make(map[string]int) // of a server in entries, by its name
	for _, s := range sources {
		c.Files = append(c.Files, s.path)
		c.approvals = append(c.approvals, s.approval())
		d.source = s
		for _, e := range entriesOf(d, &c.Router) {
			if i, again := place[e.name]; again {
				entries[i] = e
				continue
			}
			if len(entries) == maxServers {
				return Config{}, s.problem(e.member.Name.StartOffset, "there are more than %d servers; write fewer", maxServers)
			}
			place[e.name] = len(entries)
			entries = append(entries, e)
		}
	}
	checkTLS(d, c.Router.HTTP)
	for _, e := range entries {
		c.Servers = append(c.Servers, d.server(e, c.Router))
	}
	if d.refused != nil {
		return Config{}, *d.refused
	}
	checkAskedServer(d, c)
	checkTokens(d, c)
	checkIssuers(d, c)
	checkCertificates(d, &c.Router)
	checkAudit(d, c)
	checkProfiles(d, c)
	checkCluster(d, &c)
	d.close(&c.Router)
	c.Problems, c.claims = d.problems, d.claims
	if env.asWritten {
		c.claims = nil
	}
	c.sortProblems()
	last := c.Files[max(len(c.Files)-1, 0):] // there is none without files
	if more := d.mistakes - maxProblems; more > 0 {
		c.Problems = append(c.Problems, Problem{File: last[0], Severity: severityError, Fix: "correct the others first", Message: fmt.Sprintf("and %d more problems; correct the others first", more)})
	}
	if more := d.warnings - maxWarnings; more > 0 {
		c.Problems = append(c.Problems, Problem{File: last[0], Severity: severityWarning, Message: fmt.Sprintf("and %d more warnings", more)})
	}
	return c, nil
}

// sortProblems sorts the problems by their places.
func (c *Config) sortProblems() {
	slices.SortStableFunc(c.Problems, func(a, b Problem) int {
		return cmp.Or(
			cmp.Compare(slices.Index(c.Files, a.File), slices.Index(c.Files, b.File)),
			cmp.Compare(a.Line, b.Line),
			cmp.Compare(a.Column, b.Column))
	})
}

// A source is the syntax tree of one file.
type source struct {
	path string
	data []byte
	root *hujson.Object

	bare    bool // the file is a map of servers without a root key
	general bool // the file has all settings of another client
}

const (
	maxDepth  = 1000    // brackets that may be open at the same place, since the parser recurses
	maxValues = 200_000 // members and elements, since each takes some hundred bytes once it is parsed
)

func parse(path string, data []byte) (source, error) { return parseWithin(path, data, maxFile) }

// parseWithin parses a file of so many bytes at most.
func parseWithin(path string, data []byte, most int) (source, error) {
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	s := source{path: path, data: data}
	if len(bytes.TrimSpace(data)) == 0 {
		return s, s.problem(0, `the file is empty; write {"mcpServers": {}}`)
	}
	if len(data) > most {
		return s, s.problem(0, "the file is larger than %d MiB; write less", most>>20)
	}
	switch at, depth, values := measure(data); {
	case depth > maxDepth:
		return s, s.problem(at, "more than %d brackets are open here; write fewer", maxDepth)
	case values > maxValues:
		return s, s.problem(at, "the file has more than %d keys and values up to here; write fewer", maxValues)
	}
	// The parser demands a newline after a comment at the very end.
	value, err := hujson.Parse(append(slices.Clip(data), '\n'))
	if err != nil {
		if p, ok := foreign(s); ok {
			return s, p
		}
		return s, s.syntaxError(err)
	}
	root, ok := value.Value.(*hujson.Object)
	if !ok {
		return s, s.problem(value.StartOffset, `the file must hold an object; write {"mcpServers": {}}`)
	}
	s.root, s.bare, s.general = root, isBare(root), isGeneral(root)
	return s, nil
}

// measure counts the open brackets and the values of a text without building anything. It
// stops at the place where one of them is above its limit.
func measure(data []byte) (at, depth, values int) {
	for at = 0; at < len(data) && depth <= maxDepth && values <= maxValues; at++ {
		switch c := data[at]; {
		case c == '{' || c == '[':
			depth++
			values++
		case c == '}' || c == ']':
			depth--
		case c == ',':
			values++
		case c == '"':
			at = afterString(data, at)
		case c == '/' && at+1 < len(data):
			at = afterComment(data, at)
		}
	}
	return at - 1, depth, values
}

// afterString returns the place of the quote that ends the string at a place.
func afterString(data []byte, at int) int {
	for at++; at < len(data) && data[at] != '"'; at++ {
		if data[at] == '\\' {
			at++
		}
	}
	return at
}

// afterComment returns the place of the last byte of the comment at a place.
func afterComment(data []byte, at int) int {
	end := "\n"
	switch data[at+1] {
	case '/':
	case '*':
		end = "*/"
	default:
		return at // a mistake
	}
	n := bytes.Index(data[at+2:], []byte(end))
	if n < 0 {
		return len(data)
	}
	return at + 2 + n + len(end) - 1
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
	start := 0 // of the line
	for ; line > 1 && start < len(s.data); line-- {
		if n := bytes.IndexByte(s.data[start:], '\n'); n >= 0 {
			start += n + 1
		} else {
			start = len(s.data)
		}
	}
	offset := start + max(column-1, 0)
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

// problem returns an error at a byte of the source. Its message says what is wrong, then
// after a semicolon what to write.
func (s source) problem(offset int, format string, args ...any) Problem {
	before := s.data[:min(offset, len(s.data))]
	p := Problem{
		File:     s.path,
		Line:     bytes.Count(before, []byte("\n")) + 1,
		Column:   len(before) - bytes.LastIndexByte(before, '\n'),
		Message:  message(format, args...),
		Severity: severityError,
	}
	what, fix, _ := strings.Cut(p.Message, "; ")
	if key, ok := strings.CutPrefix(fix, "did you mean "); ok {
		fix = "write " + strings.TrimSuffix(key, "?") + " instead"
	}
	if _, allowed, ok := strings.Cut(what, " must be "); ok && fix == "" {
		fix = "write " + allowed
	}
	p.Fix = fix
	return p
}
