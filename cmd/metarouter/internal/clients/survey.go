package clients

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/commandline"
	"github.com/mcp-metarouter/metarouter/internal/prose"
)

// A Found is a client with servers that can be imported.
type Found struct {
	Source
	Servers int
	shipped bool // the file came with the project's folder, so it may be a stranger's
}

// maxFound is how many places a survey returns at most.
const maxFound = 8

// Survey looks for servers of the user and of the project in folder in the files of all
// clients, and returns the places that have some, the one with the most servers first. Files
// that can't be read are left out.
func Survey(p System, folder string) []Found {
	var all []Found
	for _, c := range table {
		user := c.UserSource(c.UserFile(p)).read()
		sources := []Source{user}
		for _, project := range append([]string{folder}, user.Projects()...) {
			sources = append(sources, c.ProjectSources(project, user.Path)...)
		}
		for i, s := range sources[:min(len(sources), 2*maxFound)] {
			again := slices.ContainsFunc(sources[:i], func(o Source) bool { return o.Path == s.Path && slices.Equal(o.keys, s.keys) })
			if n := s.read().count(); n > 0 && !again {
				all = append(all, Found{s, n, s.Project != "" && s.Path != user.Path})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b Found) int { return cmp.Compare(b.Servers, a.Servers) })
	return all[:min(len(all), maxFound)]
}

// count returns how many servers other than metarouter the source has. It expands and follows nothing: a
// project's file may be a stranger's.
func (s Source) count() (n int) {
	all, _, err := find([]Source{s})
	if err != nil {
		return 0
	}
	for _, e := range all {
		to, err := e.translate()
		if err != nil || e.name == EntryName {
			continue
		}
		if c, err := to.read(s.Path); err == nil && len(c.Servers) == 1 && !c.Servers[0].Self {
			n++
		}
	}
	return n
}

// Command returns the command that imports the servers, or shows them if they came with a
// project's folder.
func (f Found) Command() string {
	command := "metarouter import " + f.Client.Name
	if f.Project != "" {
		command += " --project " + commandline.Quote(f.Project)
	}
	if !f.shipped {
		command += " --write"
	}
	return command
}

// String says how many servers there are, of which client, and in which file.
func (f Found) String() string {
	servers := prose.Count(f.Servers, "server")
	if f.Project != "" && !f.shipped {
		return fmt.Sprintf("%s of %s for the folder %s, in %s", servers, f.Client.Title, f.Project, f.Path)
	}
	return fmt.Sprintf("%s of %s, in %s", servers, f.Client.Title, f.Path)
}

// NamesMode reports whether a configuration names a mode, so that the entries of clients need none.
func NamesMode(c config.Config) bool { return c.Router.Mode != "" && c.Router.Mode != "auto" }

// A Misfit is an entry of ours in a client's file that does not work, or has a mode that is not the client's.
type Misfit struct{ Problem, Fix string }

// Misfits returns the misfits of the user's files. Where used, the configuration in use, names a mode, entries may have any.
func Misfits(p System, used config.Config) (all []Misfit) {
	for _, c := range table {
		f, err := c.UserSource(c.UserFile(p)).read().open()
		if err != nil {
			continue
		}
		right := f.Client.mode
		for _, i := range items(f.servers) {
			s := clientEntry{i.key, f, i.value}.server()
			if !s.Self {
				continue
			}
			only, at := onlyOf(s), fmt.Sprintf("the entry %q in %s", i.key, f.Path)
			configs := after("--config", s.Args)
			again := "run: metarouter install " + c.Name + commandline.Flags("--config", configs) + " --write"
			if only != "" {
				again += " --each"
			}
			ours, err := ReadOurs(configs)
			mode := cmp.Or(strings.Join(after("--mode", s.Args), " "), "auto")
			switch _, gone := os.Stat(s.Command); {
			case filepath.IsAbs(s.Command) && gone != nil:
				all = append(all, Misfit{fmt.Sprintf("%s starts %s, which is gone", at, s.Command), again})
			case only != "" && configs != nil && err == nil && !ours.has(only):
				all = append(all, Misfit{fmt.Sprintf("%s shows the server %q, which is not in %s", at, only, strings.Join(configs, ", ")), again + "; or remove the entry"})
			case i.key != EntryName || NamesMode(used):
			case right == nil && mode == "direct":
				all = append(all, Misfit{c.Title + " puts the definitions of all tools before the model, and its entry lists all (--mode direct)", `take "--mode", "direct" out of the arguments of ` + at})
			case right != nil && (mode == "auto" || mode == "search"):
				all = append(all, Misfit{c.Title + " searches tools itself, but its entry can hide them behind find_tools (mode " + mode + ")", `write "` + strings.Join(right, `", "`) + `" into the arguments of ` + at})
			}
		}
	}
	return all
}

// after returns the arguments behind each of a flag.
func after(flag string, args []string) (values []string) {
	for i, arg := range args[:max(len(args)-1, 0)] {
		if arg == flag {
			values = append(values, args[i+1])
		}
	}
	return values
}
