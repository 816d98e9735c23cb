package config

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tailscale/hujson"

	"github.com/mcp-metarouter/metarouter/config/internal/keys"
	"github.com/mcp-metarouter/metarouter/internal/lazy"
	"github.com/mcp-metarouter/metarouter/internal/prose"
	"github.com/mcp-metarouter/metarouter/internal/reference"
)

// variables are those that an expansion has not found.
type variables struct {
	unset   []string // names
	plain   bool     // one of these stands where no reference to a secret can
	prompts []string // VS Code's ${input:…}, as they were written
	wrong   []string // mistakes in references to secrets, with their corrections
}

// maxMissing is how many different names are kept of each kind.
const maxMissing = 50

func addOnce(names *[]string, name string) {
	if len(*names) < maxMissing && !slices.Contains(*names, name) {
		*names = append(*names, name)
	}
}

func (v variables) any() bool { return len(v.unset)+len(v.prompts)+len(v.wrong) > 0 }

// String returns the message about them.
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

// fix returns the correction for the entry of a server.
func (v variables) fix() string {
	if len(v.prompts)+len(v.wrong) > 0 {
		_, fix := prose.Advice(v.String())
		return fix
	}
	fix := `set %s where the client is started (programs that are started from the Dock or a menu do not see your shell's variables), or put it into a file and write "envFile": "that/file" into the entry`
	if !v.plain {
		fix += ", or run metarouter secret set %[1]s and write ${keyring:%[1]s}"
	}
	return fmt.Sprintf(fix, short(v.unset[0]))
}

func shortened(names []string) string {
	all := make([]string, len(names))
	for i, name := range names {
		all[i] = short(name)
	}
	return strings.Join(all, ", ")
}

// expand replaces the variables in s, unless the text is to stay as it is written. Variables that are not
// set are added to missing.
func (d *expander) expand(s string, missing *variables) string {
	if d.env.asWritten {
		return s
	}
	return d.rules(missing).Expand(s)
}

func (d *expander) rules(missing *variables) reference.Rules {
	return reference.Rules{
		Lookup: d.lookup,
		Unset: func(name string) {
			missing.plain = missing.plain || !d.referable
			addOnce(&missing.unset, name)
		},
		Refer: func(text string) { d.refer(text, missing) },
		Endless: func(text string) {
			kind, _, _ := reference.Cut(text)
			addOnce(&missing.wrong, fmt.Sprintf("the reference ${%s:… has no end; close it with }, and write as many { as } into a command", kind))
		},
	}
}

// text reads a string as its node says.
func (d *decoder) text(n *keys.Node, v hujson.Value) (s string, err error) {
	if n.Reads == "" {
		s, err = n.Word(v)
	} else {
		d.referable = n.Reads == "secrets"
		s, err = d.expanded(v)
		d.referable = false
	}
	isPath := slices.Contains([]string{"path", "folder", "program"}, n.Format)
	switch {
	case err != nil || !isPath && !d.isKnown(s) || s == "" && n.MinLength == 0:
		return s, err
	case n.MaxLength > 0 && len(s) > n.MaxLength:
		return "", fmt.Errorf("must have at most %d bytes; write fewer", n.MaxLength)
	}
	return d.fit(n.Format, v, s)
}

// dollarName matches $NAME, a variable in files of Gemini and in shells, but not in ours.
var dollarName = lazy.Regexp(`^\$[A-Z_][A-Z0-9_]*$`)

// expanded reads a string and expands its variables. In the entry of a server, those that are not set are reported
// together.
func (d *checker) expanded(v hujson.Value) (string, error) {
	if strings.HasPrefix(d.level, atRouter) {
		s, missing, err := d.complete(v)
		switch {
		case err == nil && missing.any():
			err = fmt.Errorf("has no value: %s", missing)
		case err == nil && strings.ContainsFunc(s, keys.Unprintable):
			err = errors.New("must have printable characters only")
		}
		return s, err
	}
	s, err := keys.Text(v)
	if dollarName().MatchString(s) {
		d.warn(v.StartOffset, "$NAME is passed as it is written here; write ${NAME} for the value of the variable")
	}
	missing, known := d.missing.any(), len(d.references)
	s = d.expand(s, &d.missing)
	if !missing && d.missing.any() {
		d.missingAt = v.StartOffset
	}
	for _, r := range d.references[known:] {
		if r.Kind == reference.Keyring {
			d.secrets = append(d.secrets, mention{offset: v.StartOffset, name: r.Body})
		}
	}
	return s, err
}

// complete reads a string and expands its variables, which does not concern the entry of a server.
func (d *expander) complete(v hujson.Value) (s string, missing variables, err error) {
	if s, err = keys.Text(v); err == nil {
		s = d.expand(s, &missing)
	}
	return s, missing, err
}

// perClient is the folder of an entry for each client's own.
const perClient = "client"

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
// It knows the variables of VS Code and Cursor too.
func (d *expander) lookup(name string) (string, bool) {
	switch name {
	case "workspaceFolder":
		return d.source.project(), true
	case "workspaceFolderBasename":
		return filepath.Base(d.source.project()), true
	case "pathSeparator", "/":
		return string(filepath.Separator), true
	case "userHome":
		return d.env.home, d.env.home != ""
	}
	addOnce(&d.variables, name)
	value, ok := d.env.lookup(name)
	if ok = ok && value != "${"+name+"}"; ok || d.envFile == "" { // Gemini and others leave a reference to a variable that is not set
		return value, ok
	}
	vars, _ := d.readEnvFile(d.envFile) // environ reports the error
	value, ok = vars[name]
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

// isKnown reports whether all variables and references in a text have their values.
func (d *expander) isKnown(s string) bool {
	return !d.missing.any() && !((d.env.asWritten || len(d.references) > 0) && strings.Contains(s, "${"))
}
