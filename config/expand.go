package config

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/tailscale/hujson"
)

// reference matches the text between ${ and }: a variable, perhaps with a default. Other
// text, such as the shell's ${x%pattern}, is left as it is.
var reference = regexp.MustCompile(`^(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-((?s:.*)))?$`)

// variables are those that an expansion has not found.
type variables struct {
	unset   []string // names
	prompts []string // VS Code's ${input:…}, as they were written
}

func addOnce(names *[]string, name string) {
	if !slices.Contains(*names, name) {
		*names = append(*names, name)
	}
}

// expand replaces ${VAR}, ${env:VAR} and ${VAR:-default} in s. As in Claude
// Code, a variable that is set to nothing is set, and $VAR is plain text. A
// default may hold references. What can't be replaced stays and is added to
// missing.
func expand(s string, lookup func(string) (string, bool), missing *variables) string {
	var out strings.Builder
	for {
		before, rest, found := strings.Cut(s, "${")
		out.WriteString(before)
		if !found {
			return out.String()
		}
		end := closing(rest)
		if end < 0 {
			out.WriteString("${")
			s = rest
			continue
		}
		body := rest[:end]
		match := reference.FindStringSubmatch(body)
		if match == nil {
			if strings.HasPrefix(body, "input:") {
				addOnce(&missing.prompts, "${"+body+"}")
			}
			out.WriteString("${")
			s = rest
			continue
		}
		s = rest[end+1:]
		if value, ok := lookup(match[1]); ok {
			out.WriteString(value)
		} else if strings.Contains(body, ":-") {
			out.WriteString(expand(match[2], lookup, missing))
		} else {
			addOnce(&missing.unset, match[1])
			out.WriteString("${" + body + "}")
		}
	}
}

// closing returns the place of the } that belongs to a ${ just before s, or -1.
func closing(s string) int {
	open := 1
	for i := range len(s) {
		switch {
		case s[i] == '}':
			if open--; open == 0 {
				return i
			}
		case strings.HasPrefix(s[i:], "${"):
			open++
		}
	}
	return -1
}

func (v variables) any() bool { return len(v.unset)+len(v.prompts) > 0 }

// String returns what to do about them.
func (v variables) String() string {
	var says []string
	if n := len(v.unset); n == 1 {
		says = append(says, fmt.Sprintf("the variable %s is not set; set it, or write ${%[1]s:-default}", v.unset[0]))
	} else if n > 1 {
		says = append(says, fmt.Sprintf("the variables %s are not set; set them, or write ${%s:-default}", strings.Join(v.unset, ", "), v.unset[0]))
	}
	if len(v.prompts) > 0 {
		says = append(says, fmt.Sprintf("%s is a prompt, which only VS Code can show; write ${VAR} and set VAR in the environment", strings.Join(v.prompts, ", ")))
	}
	return strings.Join(says, "; ")
}

// expanded reads a string and expands its variables.
func (d *decoder) expanded(v hujson.Value) (string, error) {
	s, err := text(v)
	before := d.missing.any()
	s = expand(s, d.lookup, &d.missing)
	if !before && d.missing.any() {
		d.missingAt = v.StartOffset
	}
	return s, err
}

// program reads a command. A ~ at its begin is the home folder, as in a shell.
func (d *decoder) program(v hujson.Value) (string, error) {
	s, err := d.expanded(v)
	return d.env.atHome(s), err
}

// path reads a path, relative to the project's folder.
func (d *decoder) path(v hujson.Value) (string, error) {
	s, err := d.expanded(v)
	return d.absolute(s), err
}

func (d *decoder) absolute(path string) string {
	if path = d.env.atHome(path); path == "" || filepath.IsAbs(path) {
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

// lookup returns the value of a variable, including those of VS Code and Cursor.
func (d *decoder) lookup(name string) (string, bool) {
	switch name {
	case "workspaceFolder":
		return d.source.project(), true
	case "userHome":
		return d.env.home, d.env.home != ""
	}
	return d.env.lookup(name)
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
