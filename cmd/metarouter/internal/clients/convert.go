package clients

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tailscale/hujson"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/jsonc"
	"github.com/mcp-metarouter/metarouter/internal/lazy"
	secrets "github.com/mcp-metarouter/metarouter/internal/reference"
)

// maxServers is how many servers a client may have: as many as our configuration.
const maxServers = 2000

// find collects the entries of the sources. Of entries with one name, it takes the one of
// the first source, and within a source the last one.
func find(sources []Source) (all []clientEntry, notes []string, err error) {
	var parts []string
	places := make(map[string]int) // in all, by name
	for _, s := range sources {
		f, err := s.open()
		if err != nil {
			return nil, nil, err
		}
		earlier := len(all)
		for _, i := range items(f.servers) {
			e := clientEntry{i.key, f, i.value}
			switch n, again := places[e.name]; {
			case f.Client.parts && object(i.value) != nil && !starts(i.value):
				parts = append(parts, e.name)
			case again && n < earlier:
				notes = append(notes, fmt.Sprintf("%q is in %s too; metarouter uses the entry that it found first", e.name, s.Path))
			case again:
				all[n] = e
			case len(all) == maxServers:
				return nil, nil, fmt.Errorf("%s has more than %d servers; remove those that are not needed", s.Path, maxServers)
			default:
				places[e.name] = len(all)
				all = append(all, e)
			}
		}
	}
	if len(parts) > 0 {
		notes = append(notes, fmt.Sprintf("left out, because only %s can start them: %s", sources[0].Client.Title, strings.Join(parts, ", ")))
	}
	return all, notes, nil
}

// A converted server is an entry as it would stand in our file.
type converted struct {
	name   string
	value  *hujson.Value // the object
	hash   string        // of the entry as the client's file has it, with its name
	server config.Server
	notes  []string
}

// convert turns the entry into one of ours. path is the path of our file.
func (e clientEntry) convert(path string) (converted, error) {
	to, err := e.translate()
	if err != nil {
		return to, err
	}
	ours, err := to.read(path)
	if p, ok := errors.AsType[config.Problem](err); ok { // its place is in no file
		err = fmt.Errorf("%q: %s", to.name, p.Message)
	}
	if err != nil {
		return to, err
	}
	read, _ := ours.Expand()   // it is one server
	if len(read.Servers) > 0 { // else a setting has its name
		to.server = read.Servers[0]
	}
	if !to.server.Self {
		for _, p := range read.Problems {
			to.note("%s", p.Message)
		}
	}
	return to, nil
}

// translate is convert without the server: it looks at nothing but the entry. Keys of the client's dialect are rewritten, comments are
// left out, and all other keys stay as they are, also unknown ones.
func (e clientEntry) translate() (converted, error) {
	f, compact := e.file, jsonc.Compact(*e.value)
	to := converted{name: strings.ReplaceAll(e.name, ":", "-"), hash: fmt.Sprintf("%x", sha256.Sum256(fmt.Appendf(nil, "%q %s", e.name, compact)))}
	if to.name != e.name {
		to.note("is called %q here: names can't have a colon", to.name)
	}
	if object(e.value) == nil {
		return to, fmt.Errorf("%s: server %q must be an object", f.Path, e.name)
	}
	if !e.value.IsStandard() {
		to.note("has comments or trailing commas, which are left out")
	}
	d, err := open(f.Path, compact)
	if err != nil {
		return to, err
	}
	for v := range d.root.All() {
		if said, ok := jsonc.Text(*v); ok {
			if s := f.rewrite(said, &to); s != said {
				v.Value = hujson.Literal(quoted(s))
			}
		}
	}
	if d, err = f.Client.dialect.translate(d, &to); err != nil {
		return to, err
	}
	to.anchor(d, f.Source)
	to.value = &d.root
	return to, nil
}

// read reads the entry as the only one of our file at path.
func (to *converted) read(path string) (config.Config, error) {
	return config.ReadText(path, []byte(`{"mcpServers": {`+quoted(to.name)+": "+written(to.value)+"}}"))
}

func (to *converted) note(format string, args ...any) {
	note := fmt.Sprintf("%q: ", to.name) + fmt.Sprintf(format, args...)
	if !slices.Contains(to.notes, note) {
		to.notes = append(to.notes, note)
	}
}

// These are compiled when they are first needed, which most processes never do.
var (
	dollarName  = lazy.Regexp(`\$[A-Za-z_]\w*`)
	braced      = lazy.Regexp(`\{(?:env|file):[^{}]*\}`)
	reference   = lazy.Regexp(`\$\{([^{}]*)\}`)
	windowsPath = lazy.Regexp(`^([A-Za-z]:[\\/]|\\\\)`)
)

// rewrite replaces the client's own variables in s where their values are known, and
// notes those that are left.
func (from Source) rewrite(s string, to *converted) string {
	c := from.Client
	if c.dollar {
		s = dollarName().ReplaceAllStringFunc(s, func(name string) string { return "${" + name[1:] + "}" })
	}
	s = reference().ReplaceAllStringFunc(s, func(whole string) string {
		name := whole[2 : len(whole)-1]
		kind, rest, _ := strings.Cut(name, ":")
		switch {
		case kind == "input":
			to.note("VS Code asks for %q, which is a secret here: run: metarouter secret set %s", rest, secrets.InputName(rest))
			return "${keyring:" + secrets.InputName(rest) + "}"
		case name == "/" || name == "pathSeparator":
			return string(filepath.Separator)
		case from.Project != "" && name == "workspaceFolder":
			return from.Project
		case from.Project != "" && name == "workspaceFolderBasename":
			return filepath.Base(from.Project)
		case strings.HasPrefix(name, "workspaceFolder"):
			to.note("has %s, the folder that is open in %s; metarouter has one set of servers for all, so write the folder", whole, c.Title)
		case kind == "command" || kind == "config" || name == "cwd" || name == "execPath":
			to.note("has %s, which only %s can fill in; write the value", whole, c.Title)
		}
		return whole
	})
	if c.braces {
		s = braced().ReplaceAllStringFunc(s, func(whole string) string {
			kind, rest, _ := strings.Cut(whole[1:len(whole)-1], ":")
			switch {
			case kind == "env":
				return "${" + rest + "}"
			case !isAbsolute(rest) && !strings.HasPrefix(rest, "~"):
				rest = filepath.Join(filepath.Dir(from.Path), rest)
			}
			return "${file:" + rest + "}"
		})
	}
	return s
}

// anchor makes paths absolute that are relative to the folder in which the client starts
// its servers. Our servers start in metarouter's folder, unless their entries say where.
func (to *converted) anchor(d *document, from Source) {
	if member(&d.root, "command") == nil {
		return
	}
	for _, key := range []string{"command", "cwd", "envFile"} {
		m, s := member(&d.root, key), ""
		if m != nil {
			s, _ = jsonc.Text(m.Value)
		}
		switch {
		case s == "" || isAbsolute(s) || strings.HasPrefix(s, "~") || strings.Contains(s, "${"):
		case key == "command" && !strings.ContainsAny(strings.SplitN(s, " ", 2)[0], `/\`): // perhaps a whole command line, which package config names
		case from.Project == "":
			to.note("has %q relative to a folder that is not known here; write the whole path", key)
		default:
			d.set(m, filepath.Join(from.Project, s))
		}
	}
	if member(&d.root, "cwd") == nil && from.Project != "" {
		d.add(&d.root, field{"cwd", from.Project})
		to.note("runs in the folder %s, as before", from.Project)
	}
}

// isAbsolute also recognises the absolute paths of Windows, on every system.
func isAbsolute(path string) bool {
	return filepath.IsAbs(path) || windowsPath().MatchString(path)
}

// Ours is our configuration: the parsed value, and the files as they are written.
type Ours struct {
	Config   config.Config
	Files    []Source
	Imported map[string]string // our names of the entries that were imported before, by the hash of the client's entry
}

var variable = lazy.Regexp(`\$\{(?:env:)?([A-Za-z_]\w*)\}`)

// Variables returns the environment variables that our files name, in ${VAR} without a
// default or in inheritEnv, sorted.
func (o Ours) Variables() []string {
	var names []string
	for _, f := range o.Files {
		for _, found := range variable().FindAllSubmatch(f.Data, -1) {
			names = append(names, string(found[1]))
		}
	}
	for _, s := range o.Config.Servers {
		names = append(names, s.InheritEnv...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}
