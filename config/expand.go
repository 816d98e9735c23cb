package config

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tailscale/hujson"

	"github.com/mcp-metarouter/metarouter/config/internal/keys"
	"github.com/mcp-metarouter/metarouter/internal/expansion"
	"github.com/mcp-metarouter/metarouter/internal/reference"
	"github.com/mcp-metarouter/metarouter/internal/urls"
)

// variables are those that an expansion has not found.
type variables struct {
	unset   []string // names
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

// expand replaces the variables in s, unless the text is to stay as it is written. Variables that are not
// set are added to missing.
func (d *expander) expand(s string, missing *variables) string {
	if d.env.asWritten {
		return s
	}
	return d.rules(missing).Expand(s)
}

func (d *expander) rules(missing *variables) expansion.Rules {
	return expansion.Rules{
		Lookup: d.lookup,
		Unset:  func(name string) { addOnce(&missing.unset, name) },
		Refer:  func(text string) { d.refer(text, missing) },
		Endless: func(kind reference.Kind) {
			addOnce(&missing.wrong, fmt.Sprintf("the reference ${%s:… has no end; close it with }, and write as many { as } into a command", kind))
		},
	}
}

// expanded reads a string and expands its variables.
func (d *expander) expanded(v hujson.Value) (string, error) {
	s, err := keys.Text(v)
	before := d.missing.any()
	s = d.expand(s, &d.missing)
	if !before && d.missing.any() {
		d.missingAt = v.StartOffset
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

// program reads a command. A ~ at its begin is the home folder, as in a shell.
func (d texts) program(v hujson.Value) (string, error) {
	s, err := d.expanded(v)
	return d.env.atHome(s), err
}

// path reads a path, relative to the project's folder.
func (d texts) path(v hujson.Value) (string, error) {
	s, err := d.expanded(v)
	return d.absolute(s), err
}

// perClient is the folder of an entry for each client's own.
const perClient = "client"

// folder is path, or perClient.
func (d texts) folder(v hujson.Value) (string, error) {
	if s, err := keys.Text(v); err == nil && s == perClient {
		return perClient, nil
	}
	return d.path(v)
}

// defaultFolder returns the folder in which the servers of the file run.
func (d *expander) defaultFolder() string {
	if d.source.path == d.env.own && d.env.home != "" {
		return d.env.home
	}
	return d.source.project()
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

// texts reads strings of further kinds.
type texts struct{ *expander }

// redirect reads a redirect URI of another client. A text that is no whole URL has no effect.
func (d texts) redirect(v hujson.Value) (string, error) {
	s, err := d.expanded(v)
	if err == nil && d.isKnown(s) && urls.Web(s) != nil {
		s = ""
	}
	return s, err
}

// checked returns a reader of a text that is checked once its variables are known. optional allows "".
func (d texts) checked(read reader[string], optional bool, check func(string) error) reader[string] {
	return func(v hujson.Value) (string, error) {
		s, err := read(v)
		if err == nil && (s != "" || !optional) && d.isKnown(s) {
			err = check(s)
		}
		return s, err
	}
}

// isKnown reports whether all variables and references in a text have their values.
func (d *expander) isKnown(s string) bool {
	return !d.missing.any() && !((d.env.asWritten || len(d.references) > 0) && strings.Contains(s, "${"))
}

// maxPublicURL bounds "publicUrl", in bytes.
const maxPublicURL = 512

// publicURL reads "publicUrl".
func (d *checker) publicURL(v hujson.Value) (string, error) {
	s, err := d.bounded(maxPublicURL)(v)
	if err == nil && s != "" && d.isKnown(s) {
		s, err = urls.Public(s)
	}
	if err == nil && urls.LeadsElsewhere(s) {
		d.examine(d.placeOf(v), severityError, atOpen(s, func(h HTTP) string { return h.PublicURL },
			`clients of other machines come by this "publicUrl", so 'metarouter serve --http' needs a token, and the configuration has none`,
			`write "tokens": ["${ROUTER_TOKEN}"] next to it and set ROUTER_TOKEN, write "oauth", or remove "publicUrl"`))
	}
	return s, err
}
