package config

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tailscale/hujson"

	"github.com/mcp-metarouter/metarouter/internal/reference"
)

// variables are those that an expansion has not found.
type variables struct {
	unset   []string // names
	prompts []string // VS Code's ${input:…}, as they were written
	wrong   []string // what is wrong with references to secrets, and what to do
}

// maxMissing is how many different names are kept of each kind.
const maxMissing = 50

func addOnce(names *[]string, name string) {
	if len(*names) < maxMissing && !slices.Contains(*names, name) {
		*names = append(*names, name)
	}
}

// expand replaces ${VAR}, ${env:VAR} and ${VAR:-default} in s. As in Claude
// Code, a variable that is set to nothing is set, and $VAR is plain text. A
// default may hold references. What can't be replaced stays and is added to
// missing. References to secrets stay too; refer is called with each.
func expand(s string, lookup func(string) (string, bool), refer func(text string, missing *variables), missing *variables) string {
	if !strings.Contains(s, "${") {
		return s
	}
	e := expansion{text: s, ends: closings(s), lookup: lookup, refer: refer, missing: missing}
	e.write(0, len(s), 0)
	return e.out.String()
}

// An expansion takes time in proportion to its text, however references are nested.
type expansion struct {
	text    string
	ends    []int32 // at the place of each ${, the place of the } that belongs to it, or 0
	lookup  func(string) (string, bool)
	refer   func(text string, missing *variables)
	missing *variables
	out     strings.Builder
}

// maxNesting is how many defaults may be inside each other. Deeper ones stay as they are.
const maxNesting = 100

// write writes the text from a place to another one. depth counts the defaults around it.
func (e *expansion) write(from, to, depth int) {
	for {
		before := strings.Index(e.text[from:to], "${")
		if before < 0 {
			e.out.WriteString(e.text[from:to])
			return
		}
		e.out.WriteString(e.text[from : from+before])
		from += before
		end := int(e.ends[from])
		name, rest, ok := "", 0, false
		if end > 0 {
			name, rest, ok = variable(e.text[from+2 : end])
		}
		rest += from + 2
		value, isSet := "", false
		if ok {
			value, isSet = e.lookup(name)
		}
		switch hasDefault := ok && rest < end; {
		case isSet:
			e.out.WriteString(value)
		case hasDefault && depth < maxNesting:
			e.write(rest+len(":-"), end, depth+1)
		case ok && !hasDefault:
			addOnce(&e.missing.unset, name)
			e.out.WriteString(e.text[from : end+1])
		case e.isSecret(from, end):
			e.refer(e.text[from+2:end], e.missing)
			e.out.WriteString(e.text[from : end+1])
		default: // not a reference
			e.out.WriteString("${")
			end = from + 1
		}
		from = end + 1
	}
}

// isSecret reports whether the text between the ${ at from and the } at end, 0 if there is
// none, is a reference to a secret.
func (e *expansion) isSecret(from, end int) bool {
	rest := e.text[from+2:]
	kind, _, ok := reference.Cut(rest[:min(len(rest), len("keyring:"))])
	if ok && end == 0 && kind != reference.Input {
		addOnce(&e.missing.wrong, fmt.Sprintf("the reference ${%s:… has no end; close it with }, and write as many { as } into a command", kind))
	}
	return ok && end > 0
}

// variable returns the variable's name at the begin of the text between ${ and }, and how
// long the text is up to the name's end, where a default may follow. Other text, such as
// the shell's ${x%pattern}, is not a reference.
func variable(body string) (name string, length int, ok bool) {
	rest := strings.TrimPrefix(body, "env:")
	if strings.HasPrefix(rest, "-") {
		rest = body // ${env:-default}, of the variable env
	}
	for ; length < len(rest); length++ {
		c := rest[length]
		if !(c == '_' || 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z' || length > 0 && '0' <= c && c <= '9') {
			break
		}
	}
	name = rest[:length]
	length += len(body) - len(rest)
	return name, length, name != "" && (length == len(body) || strings.HasPrefix(body[length:], ":-"))
}

// closings returns, at the place of each ${, the place of the } that belongs to it, or 0.
// In a command, other braces count too.
func closings(s string) []int32 {
	const brace = -1 // an open brace that is no ${
	ends := make([]int32, len(s))
	var open []int32
	commands := 0 // how many of open are commands
	isCommand := func(at int32) bool { return at != brace && strings.HasPrefix(s[at:], "${cmd:") }
	for i := range len(s) {
		switch {
		case s[i] == '}' && len(open) > 0:
			at := open[len(open)-1]
			open = open[:len(open)-1]
			if isCommand(at) {
				commands--
			}
			if at != brace {
				ends[at] = int32(i)
			}
		case strings.HasPrefix(s[i:], "${"):
			open = append(open, int32(i))
			if isCommand(int32(i)) {
				commands++
			}
		case s[i] == '{' && commands > 0 && s[i-1] != '$':
			open = append(open, brace)
		}
	}
	return ends
}

func (v variables) any() bool { return len(v.unset)+len(v.prompts)+len(v.wrong) > 0 }

// String returns what to do about them.
func (v variables) String() string {
	var says []string
	if n := len(v.unset); n == 1 {
		says = append(says, fmt.Sprintf("the variable %s is not set; set it, or write ${%[1]s:-default}", short(v.unset[0])))
	} else if n > 1 {
		says = append(says, fmt.Sprintf("the variables %s are not set; set them, or write ${%s:-default}", shortened(v.unset), short(v.unset[0])))
	}
	if len(v.prompts) > 0 {
		says = append(says, fmt.Sprintf("%s is a prompt, which only VS Code can show; write ${VAR} and set VAR in the environment", shortened(v.prompts)))
	}
	return strings.Join(append(says, v.wrong...), "; ")
}

// fix returns what to type or to write, for the entry of a server.
func (v variables) fix() string {
	if len(v.prompts)+len(v.wrong) > 0 {
		_, fix, _ := strings.Cut(v.String(), "; ")
		return fix
	}
	return fmt.Sprintf(`set %s where the client is started (programs that are started from the Dock or a menu do not see your shell's variables), or put it into a file and write "envFile": "that/file" into the entry, or run metarouter secret set %[1]s and write ${keyring:%[1]s}`, short(v.unset[0]))
}

func shortened(names []string) string {
	all := make([]string, len(names))
	for i, name := range names {
		all[i] = short(name)
	}
	return strings.Join(all, ", ")
}

// expand replaces the variables in s, unless the text is to stay as it is written.
func (d *expander) expand(s string, missing *variables) string {
	if d.env.asWritten {
		return s
	}
	return expand(s, d.lookup, d.refer, missing)
}

// expanded reads a string and expands its variables.
func (d *expander) expanded(v hujson.Value) (string, error) {
	s, err := text(v)
	before := d.missing.any()
	s = d.expand(s, &d.missing)
	if !before && d.missing.any() {
		d.missingAt = v.StartOffset
	}
	return s, err
}

// complete reads a string and expands its variables, which does not concern the entry of a server.
func (d *expander) complete(v hujson.Value) (s string, missing variables, err error) {
	if s, err = text(v); err == nil {
		s = d.expand(s, &missing)
	}
	return s, missing, err
}

// program reads a command. A ~ at its begin is the home folder, as in a shell.
func (d *expander) program(v hujson.Value) (string, error) {
	s, err := d.expanded(v)
	return d.env.atHome(s), err
}

// path reads a path, relative to the project's folder.
func (d *expander) path(v hujson.Value) (string, error) {
	s, err := d.expanded(v)
	return d.absolute(s), err
}

func (d *expander) absolute(path string) string {
	if path = d.env.atHome(path); path == "" || filepath.IsAbs(path) || d.env.asWritten {
		return path
	}
	return filepath.Join(d.source.project(), path)
}

func (e environment) atHome(path string) string {
	if rest, ok := strings.CutPrefix(path, "~"); ok && e.home != "" && (rest == "" || rest[0] == '/' || rest[0] == filepath.Separator) {
		return filepath.Join(e.home, rest)
	}
	return path
}

// lookup returns the value of a variable: of the environment, else of the entry's envFile.
// It knows those of VS Code and Cursor too.
func (d *expander) lookup(name string) (string, bool) {
	switch name {
	case "workspaceFolder":
		return d.source.project(), true
	case "workspaceFolderBasename":
		return filepath.Base(d.source.project()), true
	case "pathSeparator":
		return string(filepath.Separator), true
	case "userHome":
		return d.env.home, d.env.home != ""
	}
	if value, ok := d.env.lookup(name); ok || d.envFile == "" {
		return value, ok
	}
	vars, _ := d.readEnvFile(d.envFile) // environ reports the error
	value, ok := vars[name]
	return value, ok
}

// project returns the project's folder: the folder of the file, or the one above if an
// editor keeps the file in a folder of its own.
func (s source) project() string {
	folder := filepath.Dir(s.path)
	if base := filepath.Base(folder); base == ".vscode" || base == ".cursor" {
		return filepath.Dir(folder)
	}
	return folder
}
