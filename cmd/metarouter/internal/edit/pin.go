package edit

import (
	"errors"
	"fmt"
	"strings"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/clients"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/configfile"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/console"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/commandline"
)

// Pin puts the exact versions of packages into the files of the configuration in use. runs are the packages that run, as name@version,
// by server.
func Pin(e *Editor, runs map[string]string) error {
	files, err := e.inUse()
	if err != nil {
		return err
	}
	c, err := config.LoadText(pathsOf(files)...)
	if err != nil {
		return console.Usage(configfile.Unreadable(err))
	}
	for _, f := range files {
		for _, s := range c.Servers {
			old, exact, err := pinOf(s, runs[s.Name])
			if last, _, failed := fileOf(files, s.Name); failed != nil || last.Path != f.Path || err == nil && exact == old {
				continue
			}
			text := f.text
			if err == nil {
				text, err = clients.SetArgument(f.Path, f.text, s.Name, old, exact)
			}
			if err != nil {
				e.Console.Note("not pinned: %s: %v", s.Name, err)
			} else {
				f.text = text
			}
		}
		used, failed := e.apply(f)
		if err = errors.Join(err, failed); used {
			e.Console.Note("note: the next start fetches the pinned versions once, which may take a minute; later starts are faster")
		}
	}
	return err
}

// pinOf returns the argument of an entry that names its package, and what it is to be so that the package has the version of runs,
// which is name@version. Both are equal if there is nothing to pin.
func pinOf(s config.Server, runs string) (old, exact string, err error) {
	use, ok := commandline.PackagesOf(s.Command, s.Args)
	if !ok || s.Disabled || s.Transport != config.Stdio || use.Specs[0].Text == "" {
		return "", "", nil
	}
	spec := use.Specs[0]
	old = s.Args[spec.Arg]
	name, version := runs[:max(strings.LastIndex(runs, "@"), 0)], runs[strings.LastIndex(runs, "@")+1:]
	end := strings.IndexAny(spec.Text[1:], "@=<>~! ") + 1 // after the first character, the @ of a scope
	if end == 0 {
		end = len(spec.Text)
	}
	mark := "@"
	if spec.From && !use.ByNPM() {
		mark = "=="
	}
	bare, _, extras := strings.Cut(spec.Text[:end], "[")
	switch {
	case len(use.Specs) > 1:
		err = errors.New("it needs several packages; write their versions by hand")
	case use.KeepsData(s.Env):
		err = errors.New("its data is in its package's folder; set MEMORY_FILE_PATH first")
	case bare != name:
		err = errors.New("its version is unknown, since it does not run or is no package of npm or PyPI")
	case extras && mark == "@":
		err = fmt.Errorf("write %s after --from, so that its version can be pinned", spec.Text)
	}
	return old, strings.TrimSuffix(old, spec.Text) + spec.Text[:end] + mark + version, err
}
