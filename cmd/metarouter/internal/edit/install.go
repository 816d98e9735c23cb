package edit

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/clients"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/exit"
)

// InstallOptions say which entry is installed where.
type InstallOptions struct {
	Version  string // of this program
	File     string // --file
	Replace  bool   // --replace
	WithData bool   // --data was given
}

// Install adds an entry that starts this program, or replaces it, in a client's configuration.
func Install(e *Editor, client string, o InstallOptions) error {
	entry, err := clientEntry(e, o)
	if err != nil {
		return err
	}
	c, _ := clients.Find(client)
	source, err := clientSource(e, c, o.File)
	if err != nil {
		return err
	}
	file, err := clients.Read(source.Path)
	if err != nil {
		return err
	}
	source.Data = file.Data
	if entry.IsOwn(source.Path) {
		return exit.Usage(fmt.Errorf("%s is metarouter's own configuration, and an entry in it would start metarouter within metarouter; name another with --file or --config", source.Path))
	}
	own, err := clients.ReadOurs(entry.Configs)
	if err != nil {
		return exit.Usage(err)
	}
	entry.Variables = own.Variables()
	result, err := clients.Install(c, source, entry)
	if err != nil {
		return err
	}
	others, err := clients.Others(c, source, entry.Configs[len(entry.Configs)-1], own)
	if err != nil {
		return err
	}
	if o.Replace {
		now := source
		now.Data = result
		if result, err = clients.WithoutOthers(c, now, entry, others); err != nil {
			return err
		}
	}
	e.printDiff(clients.Diff(source.Path, file.Data, result))
	e.noteProjectFile()
	noteEntry(e, c, entry, own, others, o.Replace)
	if folder := filepath.Dir(source.Path); clients.FirstExisting(folder) == "" {
		e.Console.Note("note: there is no folder %s; is %s installed? (--file names another file)", folder, c.Title)
	}
	switch {
	case string(result) == string(file.Data):
		e.Console.Note("%s has the entry already, in %s; nothing to do", c.Title, source.Path)
	case !e.Write:
		e.Console.Note(notWritten)
	default:
		if err := e.write(file, result, fs.ModePerm); err != nil {
			return err
		}
		e.Console.Note("now %s", c.Restart())
	}
	return nil
}

// noteEntry says what a person should know of our entry and the client's others.
func noteEntry(e *Editor, c clients.Client, entry clients.Entry, own clients.Ours, others []clients.Other, replace bool) {
	if strings.HasPrefix(entry.Command, filepath.Clean(os.TempDir())+string(filepath.Separator)) && !strings.Contains(filepath.ToSlash(entry.Command), "/node_modules/") {
		e.Console.Note("note: %s is in a folder for temporary files; move it, and install again", entry.Command)
	}
	noteOwnConfiguration(e, c, entry, own, slices.ContainsFunc(others, func(o clients.Other) bool { return !o.Router }))
	if passed := c.Passes(entry); len(passed) > 0 {
		e.Console.Note("note: %s keeps variables that look secret from servers, unless the entry names them as this one does: %s", c.Title, strings.Join(passed, ", "))
	}
	if replace {
		noteDisabledServers(e, c, others)
	} else {
		noteOtherServers(e, c, others)
	}
}

// clientSource returns the named file of a client, or the usual one if file is "".
func clientSource(e *Editor, c clients.Client, file string) (clients.Source, error) {
	if file == "" {
		p, err := clients.ThisPlace()
		if err != nil {
			return clients.Source{}, err
		}
		source, notes := c.UsualSource(p)
		for _, note := range notes {
			e.Console.Note("note: %s", note)
		}
		return source, nil
	}
	path, err := filepath.Abs(file)
	return c.NamedSource(path), err
}

// clientEntry returns the entry for clients.
func clientEntry(e *Editor, o InstallOptions) (entry clients.Entry, err error) {
	if entry.Command, entry.Before, err = clients.OwnProgram(o.Version); err != nil {
		return entry, err
	}
	if entry.Configs, err = e.own(); err != nil || !o.WithData {
		return entry, err
	}
	data := e.Data
	if data != "" {
		data, err = filepath.Abs(data)
	}
	entry.Data = &data
	return entry, err
}

// noteOwnConfiguration warns if the entry would start a router without servers. some says that
// the client has servers to import.
func noteOwnConfiguration(e *Editor, c clients.Client, entry clients.Entry, own clients.Ours, some bool) {
	switch {
	case len(own.Files) == 0 && !some:
		e.Console.Note("note: %s does not exist yet, so metarouter would have no servers; make it with 'metarouter init%s --write'", strings.Join(entry.Configs, ", "), e.Flags())
	case len(own.Files) > 0 && len(own.Config.Servers) == 0 && !some:
		e.Console.Note("note: %s has no servers yet; add one with 'metarouter add NAME%s --write -- COMMAND'", strings.Join(entry.Configs, ", "), e.Flags())
	case len(own.Files) == 0:
		e.Console.Note("note: %s does not exist yet, so metarouter would have no servers; make it with 'metarouter import %s --write' or 'metarouter init --write'", strings.Join(entry.Configs, ", "), c.Name)
	case len(own.Config.Servers) == 0:
		e.Console.Note("note: %s has no servers yet; 'metarouter import %s --write' copies those of %s", strings.Join(entry.Configs, ", "), c.Name, c.Title)
	}
}

// noteDisabledServers says which of the client's servers are lost to it, since they are
// disabled in our configuration.
func noteDisabledServers(e *Editor, c clients.Client, others []clients.Other) {
	for _, o := range others {
		if o.Disabled {
			e.Console.Note("note: %s will not have the server %s, which is disabled in your configuration; 'metarouter enable %[2]s --write' brings it back", c.Title, o.Ours)
		}
	}
}

// noteOtherServers says what happens to the client's other servers.
func noteOtherServers(e *Editor, c clients.Client, others []clients.Other) {
	var twice, alone, routers []string
	for _, o := range others {
		switch {
		case o.Router:
			routers = append(routers, o.Name)
		case o.Ours != "":
			twice = append(twice, o.Name)
		default:
			alone = append(alone, o.Name)
		}
	}
	say := func(what string, names []string, format string, args ...any) {
		if len(names) > 0 {
			e.Console.Note("note: %s: %s; %s", what, strings.Join(names, ", "), fmt.Sprintf(format, args...))
		}
	}
	say("these entries start metarouter too", routers, "remove them")
	say("these servers would run twice, once started by "+c.Title+" and once by metarouter", twice, "--replace takes them out of %s's file", c.Title)
	say("not in metarouter yet", alone, "'metarouter import %s --write' copies them", c.Name)
}
