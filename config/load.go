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

	"github.com/mcp-metarouter/metarouter/config/internal/keys"
	"github.com/mcp-metarouter/metarouter/internal/commandline"
	"github.com/mcp-metarouter/metarouter/internal/configpath"
	"github.com/mcp-metarouter/metarouter/internal/jsonc"
	"github.com/mcp-metarouter/metarouter/internal/program"
	"github.com/mcp-metarouter/metarouter/internal/prose"
	"github.com/mcp-metarouter/metarouter/internal/safefile"
	"github.com/mcp-metarouter/metarouter/internal/script/stored"
	"github.com/mcp-metarouter/metarouter/internal/secret"
)

// Load reads the files. Later files win, for each server and for each key of "metarouter".
// An entry that is overridden is not decoded.
//
// The error says that a file can't be read, or is a Problem because of which the files are not used: one is not an
// object of JSON with comments, is too large, or has a mistake that is not in a server, a profile, a token, an issuer or a
// certificate, which it switches off. Config.Problems has all mistakes, after an error too.
func Load(paths ...string) (Config, error) { return load(paths, system()) }

// LoadText is Load for files that are not trusted yet: it looks at nothing but the files and their stored scripts.
// Variables stay as they are written, no envFile is read, and paths stay relative. Use
// [Config.Expand] once the text is trusted.
func LoadText(paths ...string) (Config, error) {
	return load(paths, environment{readFile: readFile, asWritten: true})
}

// Expand returns the result of Load for the text that LoadText has read.
func (c Config) Expand() (Config, error) {
	if !c.env.asWritten {
		return c, nil
	}
	return assemble(c.sources, system())
}

// With returns the configuration that Load would have returned for the same text with other values of variables. lookup
// is called instead of [os.LookupEnv]. If the files can't be used with these, only the servers have them.
func (c Config) With(lookup func(name string) (string, bool)) Config {
	env := system()
	env.lookup = lookup
	with, err := assemble(c.sources, env)
	if err != nil {
		c.Servers = slices.Clone(c.Servers)
		for i, s := range c.Servers {
			if n := slices.IndexFunc(with.Servers, func(w Server) bool { return w.Name == s.Name }); n >= 0 { // stored scripts are no servers of with
				c.Servers[i] = with.Servers[n]
			}
		}
		return c
	}
	return with
}

// ReadText is LoadText for the text of one file. The file at path need not exist; its stored scripts are read.
func ReadText(path string, data []byte) (Config, error) {
	return load([]string{path}, environment{asWritten: true, readFile: func(string) ([]byte, error) { return data, nil }})
}

// Parse parses a file of any size, and returns the key under which it has its servers, or "" if they are in the
// file's object itself. For a file without servers that is "mcpServers". The error is a
// Problem: the data is not an object of JSON with comments.
func Parse(path string, data []byte) (file hujson.Value, serversKey string, err error) {
	s, err := parseWithin(path, data, len(data))
	if err != nil || s.bare {
		return s.file, "", err
	}
	for _, key := range roots {
		if hasMember(s.file, key) {
			return s.file, key, nil
		}
	}
	return s.file, roots[0], nil
}

// An environment is the system as Load sees it. Tests bring their own, so that decoding
// is pure.
type environment struct {
	lookup     func(name string) (string, bool)
	readFile   func(path string) ([]byte, error)
	lookPath   func(program string) (string, error)
	home       string // of the user, "" if unknown
	own        string // the user's own file, "" if unknown
	executable string // of this process, "" if unknown

	windows    bool // a command line for Windows runs as it is written
	asWritten  bool // the text is not trusted: the system is not asked for anything
	examines   bool // of [Config.Examine]
	hasSecrets bool // [Config.WithSecrets] has read the secrets of "http"
}

func system() environment {
	home, _ := os.UserHomeDir()
	own, _ := configpath.Own()
	executable, _ := os.Executable()
	return environment{lookup: secret.LookupEnv, readFile: readFile, lookPath: program.Look, windows: runtime.GOOS == "windows", home: home, own: own, executable: executable}
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
	c := Config{Router: defaultRouter(), sources: sources, env: env}
	d := &decoder{profiles: make(map[string]sourceMember)}
	d.env, d.last = env, make(map[string]sourceMember)
	var entries []entry
	place := make(map[string]int) // of a server in entries, by its name
	for _, s := range sources {
		c.Files = append(c.Files, s.path)
		c.Text = c.Text.Add(s.path, s.approved(), s.stored.Scripts, s.bare, env.asWritten)
		d.source = s
		seen := make(map[string]bool)
		for _, e := range entriesOf(d, &c.Router) {
			e.twice, seen[e.name] = seen[e.name], true
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
	d.within("it is not started", func() {
		for _, e := range entries {
			c.Servers = append(c.Servers, d.server(e, c.Router))
		}
	})
	addScripts(d, &c)
	checkTLS(d, c.Router.HTTP)
	examineOpen(d, c.Router.HTTP)
	checkTokens(d, c)
	checkIssuers(d, c)
	checkCertificates(d, &c.Router)
	checkLogs(d, c.Router)
	checkProfiles(d, c)
	checkCluster(d, &c)
	c.Problems = d.problems
	c.sortProblems()
	last := c.Files[max(len(c.Files)-1, 0):] // empty without files
	if more := d.mistakes - maxProblems; more > 0 {
		c.Problems = append(c.Problems, Problem{File: last[0], Severity: severityError, Fix: "correct the others first", Message: fmt.Sprintf("and %d more problems; correct the others first", more)})
	}
	if more := d.warnings - maxWarnings; more > 0 {
		c.Problems = append(c.Problems, Problem{File: last[0], Severity: severityWarning, Message: fmt.Sprintf("and %d more warnings", more)})
	}
	if d.refused != nil {
		return Config{Files: c.Files, Text: c.Text, Servers: c.Servers, Problems: c.Problems, sources: sources, env: env}, *d.refused
	}
	return c, nil
}

// sortProblems sorts the problems by their places.
func (c *Config) sortProblems() {
	slices.SortStableFunc(c.Problems, func(a, b Problem) int {
		return cmp.Or(
			cmp.Compare(slices.Index(c.Files, a.File), slices.Index(c.Files, b.File)), // stored scripts are first
			cmp.Compare(a.File, b.File),
			cmp.Compare(a.Line, b.Line),
			cmp.Compare(a.Column, b.Column))
	})
}

// A source is the syntax tree of one file.
type source struct {
	path string
	data []byte
	file hujson.Value
	root *hujson.Object // of file

	bare    bool // the file is a map of servers without a root key
	rooted  bool // it has a root key
	general bool // the file has all settings of another client

	stored stored.Folder // that the file names
}

func parse(path string, data []byte) (source, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return source{}, fmt.Errorf("read config: %w", err)
	}
	s, err := parseWithin(path, data, maxFile)
	if err == nil {
		s.stored = s.scripts()
	}
	return s, err
}

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
	value, err := jsonc.Parse(data)
	if err != nil {
		switch filepath.Ext(path) {
		case ".toml":
			return s, s.problem(err.Offset, "the file is not JSON; run: metarouter import codex --file %s --write", commandline.Quote(path))
		case ".yaml", ".yml":
			return s, s.problem(err.Offset, `the file is not JSON; write it in JSON, as {"mcpServers": {}}`)
		}
		return s, s.problem(err.Offset, "%s; %s", err.What, err.Fix)
	}
	root, ok := value.Value.(*hujson.Object)
	if !ok {
		return s, s.problem(value.StartOffset, `the file must hold an object; write {"mcpServers": {}}`)
	}
	s.file, s.root, s.general = value, root, keys.IsGeneral(root)
	s.rooted = slices.ContainsFunc(root.Members, func(m hujson.ObjectMember) bool { return slices.Contains(roots, jsonc.Key(m)) })
	s.bare = !s.rooted && isBare(root)
	return s, nil
}

// approved returns the members of the file that this package reads, which an approval covers: also the prompts to which entries refer.
func (s source) approved() *hujson.Object {
	object := new(hujson.Object)
	for _, m := range s.root.Members {
		if key := jsonc.Key(m); s.bare || key == atRouter || key == "inputs" || slices.Contains(roots, key) {
			object.Members = append(object.Members, m)
		}
	}
	return object
}

// problem returns an error at a byte of the source. Its message has the mistake, then
// after a semicolon the correction.
func (s source) problem(offset int, format string, args ...any) Problem {
	before := s.data[:min(offset, len(s.data))]
	p := Problem{
		File:     s.path,
		Line:     bytes.Count(before, []byte("\n")) + 1,
		Column:   len(before) - bytes.LastIndexByte(before, '\n'),
		Message:  message(format, args...),
		Severity: severityError,
	}
	mistake, fix := prose.Advice(p.Message)
	if key, ok := strings.CutPrefix(fix, "did you mean "); ok {
		fix = "write " + strings.TrimSuffix(key, "?") + " instead"
	}
	if _, allowed, ok := strings.Cut(mistake, " must be "); ok && fix == "" {
		allowed, _, _ = strings.Cut(allowed, ", so ")
		fix = "write " + allowed
	}
	p.Fix = fix
	return p
}
