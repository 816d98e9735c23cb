package edit

import (
	"errors"
	"strings"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/clients"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/configfile"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/console"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/commandline"
)

// Pin puts the exact versions of the npm packages that run into the files of the configuration in use. runs are
// these packages as name@version, by server, of the configuration with the digest examined.
func Pin(e *Editor, runs map[string]string, examined string) error {
	files, err := e.inUse()
	if err != nil {
		return err
	}
	c, err := config.LoadText(pathsOf(files)...)
	if err != nil {
		return console.Usage(configfile.Unreadable(err))
	}
	if c.Text.Digest() != examined {
		return console.Usage(errors.New("nothing is pinned: the files differ from the configuration that runs; approve an edit with 'metarouter trust'"))
	}
	var names []string
	for _, s := range c.Servers {
		old, exact, err := pinned(s, runs[s.Name])
		if err != nil {
			e.Console.Note("not pinned: %s: %v", s.Name, err)
		}
		if exact == old {
			continue
		}
		at, _, _, err := fileOf(files, s.Name)
		if err != nil {
			return err
		}
		for i := range files {
			if files[i].Path != at.Path {
				continue
			}
			if files[i].text, err = clients.SetArgument(at.Path, files[i].text, s.Name, old, exact); err != nil {
				return err
			}
		}
		names = append(names, s.Name)
	}
	if len(names) == 0 {
		e.Console.Note("nothing to pin: no entry runs an npm package without its exact version")
		return nil
	}
	e.Console.Note("to be pinned: %s", strings.Join(names, ", "))
	for _, f := range files {
		if string(f.text) == string(f.Data) {
			continue
		}
		if _, err := e.apply(f); err != nil {
			return err
		}
	}
	return nil
}

// pinned returns the argument of an entry that names its only npm package, and the same with the version that
// runs, a name@version; runs is "" if none is known. Without such an argument, both are "".
func pinned(entry config.Server, runs string) (old, exact string, err error) {
	use, ok := commandline.PackagesOf(entry.Command, entry.Args)
	if !ok || !use.ByNPM() || runs == "" {
		return "", "", nil
	}
	old = entry.Args[use.Specs[0].Arg]
	switch name := runs[:strings.LastIndex(runs, "@")]; {
	case len(use.Specs) > 1:
		return old, old, errors.New("it needs several packages; write their versions by hand")
	case use.Specs[0].Text != name && !strings.HasPrefix(use.Specs[0].Text, name+"@"):
		return old, old, nil // it was edited meanwhile
	case use.KeepsData(entry.Env):
		return old, old, errors.New("its data is in its package's folder; set MEMORY_FILE_PATH first")
	}
	return old, strings.TrimSuffix(old, use.Specs[0].Text) + runs, nil
}
