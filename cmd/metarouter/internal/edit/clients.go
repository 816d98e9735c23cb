package edit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/clients"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/console"
)

// ImportOptions are the flags of import.
type ImportOptions struct {
	File, Project string
	Pin           bool
	Choice        clients.Choice // between entries of one name
}

// Import copies the servers of a client into our configuration, and offers to log in to those that may
// need it.
func Import(ctx context.Context, e *Editor, client string, o ImportOptions) error {
	c, _ := clients.Find(client)
	sources, err := clientSources(e, c, o)
	if err != nil {
		return err
	}
	paths, err := e.own()
	if err != nil {
		return err
	}
	own, err := clients.ReadOurs(paths)
	if err != nil {
		return console.Usage(err)
	}
	own.Imported, _ = imports(paths[len(paths)-1], nil)
	target, err := clients.Read(paths[len(paths)-1])
	if err != nil {
		return err
	}
	done, err := clients.Import(c, sources, target.Path, target.Data, own, o.Choice)
	if err != nil {
		return err
	}
	if o.Pin {
		if err := pinImported(ctx, e, target.Path, &done); err != nil {
			return err
		}
	}
	e.printDiff(clients.Diff(target.Path, target.Data, done.Data))
	e.noteProjectFile()
	noteImported(e, done)
	if err := e.writeImported(target, done); err != nil || !e.Write || string(done.Data) == string(target.Data) {
		return err
	}
	if err := e.Offer(ctx, paths, done.Login); err != nil {
		return err
	}
	configs := e.Flags()
	how := "" // install prints the lines
	if c.Rewrites() {
		how = " --write"
		if o.File == "" && o.Project == "" && len(done.Conflicts) == 0 { // else the client would start them too
			how = " --replace --write"
		}
	}
	e.Console.Note("next: metarouter doctor%s, then metarouter install %s%s%s", configs, c.Name, configs, how)
	return nil
}

// writeImported writes our file with the imported servers, and notes which these are.
func (e *Editor) writeImported(target clients.File, done clients.Imported) error {
	keep := fs.ModePerm
	if done.Secrets {
		keep = 0o600
	}
	switch {
	case string(done.Data) == string(target.Data):
		e.Console.Note("nothing to do for %s", target.Path)
	case !e.Write:
		e.Console.Note(notWritten)
	default:
		if _, err := e.writeOurs(target, done.Data, keep); err != nil {
			return err
		}
	}
	if !e.Write {
		return nil
	}
	_, err := imports(target.Path, done.Hashes)
	return err
}

// clientSources reads the client's files.
func clientSources(e *Editor, c clients.Client, o ImportOptions) ([]clients.Source, error) {
	var sources []clients.Source
	if o.File != "" {
		path, err := filepath.Abs(o.File)
		if err != nil {
			return nil, err
		}
		sources = []clients.Source{c.NamedSource(path)}
	} else {
		p, err := clients.ThisSystem()
		if err != nil {
			return nil, err
		}
		files := c.Files(p)
		user := cmp.Or(clients.FirstExisting(files...), files[0])
		if o.Project == "" {
			sources = c.UserSources(p, user)
			for _, profile := range c.Profiles(p, user) {
				e.Console.Note("note: a profile of %s has servers of its own; for them, add --file %q", c.Title, profile)
			}
		} else {
			folder, err := filepath.Abs(o.Project)
			if err != nil {
				return nil, err
			}
			if sources = c.ProjectSources(folder, user); sources == nil {
				return nil, console.Usage(fmt.Errorf("%s has no servers of single projects; leave out --project", c.Title))
			}
		}
	}
	there, err := c.Existing(sources)
	if err != nil {
		return nil, err
	}
	if folders := c.Projects(there[0]); o.Project == "" && len(folders) > 0 {
		e.Console.Note("note: %s has further servers for single projects; for them, add --project %q", c.Title, folders[0])
		for _, folder := range folders[1:] {
			e.Console.Note("  or --project %q", folder)
		}
	}
	return there, nil
}

// noteImported says which of the client's servers were added, replaced and left out.
func noteImported(e *Editor, done clients.Imported) {
	say := func(what string, names []string) {
		if len(names) > 0 {
			e.Console.Note("%s: %s", what, strings.Join(names, ", "))
		}
	}
	say("new", done.Added)
	say("replaced with the client's version", done.Replaced)
	say("in your configuration already", done.Same)
	say("not imported, because your configuration has a different server of this name (--overwrite replaces yours, --rename imports it under a new name)", done.Conflicts)
	say("left out, because they start metarouter itself", done.Routers)
	e.noteLogin(done.Login)
	for _, note := range done.Notes {
		e.Console.Note("note: %s", note)
	}
	if len(done.Added)+len(done.Replaced)+len(done.Same)+len(done.Conflicts)+len(done.Routers) == 0 {
		e.Console.Note("the client has no servers")
	}
}

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
		return console.Usage(fmt.Errorf("%s is metarouter's own configuration, and an entry in it would start metarouter within metarouter; name another with --file or --config", source.Path))
	}
	own, err := clients.ReadOurs(entry.Configs)
	if err != nil {
		return console.Usage(err)
	}
	own.Imported, _ = imports(entry.Configs[len(entry.Configs)-1], nil)
	entry.Variables = own.Variables()
	others, err := clients.Others(c, source, entry.Configs[len(entry.Configs)-1], own)
	if err != nil {
		return err
	}
	if !c.Rewrites() {
		return printEntry(e, c, source, entry, own, others)
	}
	result, err := clients.Install(c, source, entry)
	if err != nil {
		return err
	}
	if o.Replace {
		now := source
		now.Data = result
		if result, err = clients.WithoutOthers(c, now, entry, others, e.Flags()); err != nil {
			return err
		}
	}
	e.printDiff(clients.Diff(source.Path, file.Data, result))
	e.noteProjectFile()
	noteEntry(e, c, entry, own, others, o.Replace)
	return writeEntry(e, c, file, result)
}

// writeEntry writes a client's file with our entry.
func writeEntry(e *Editor, c clients.Client, file clients.File, result []byte) error {
	if folder := filepath.Dir(file.Path); clients.FirstExisting(folder) == "" {
		e.Console.Note("note: there is no folder %s; is %s installed? (--file names another file)", folder, c.Title)
	}
	switch {
	case string(result) == string(file.Data):
		e.Console.Note("%s has the entry already, in %s; nothing to do", c.Title, file.Path)
	case !e.Write:
		e.Console.Note(notWritten)
	default:
		if err := e.write(file, result, fs.ModePerm); err != nil {
			return err
		}
		e.Console.Note("now %s", c.Restart)
	}
	return nil
}

// printEntry prints our entry for a file that metarouter does not write.
func printEntry(e *Editor, c clients.Client, source clients.Source, entry clients.RouterEntry, own clients.Ours, others []clients.Other) error {
	lines, err := clients.Lines(c, source, entry)
	if err != nil {
		return err
	}
	noteEntry(e, c, entry, own, others, false)
	if lines == nil {
		e.Console.Note("%s has the entry already, in %s; nothing to do", c.Title, source.Path)
		return nil
	}
	fmt.Fprintln(e.Console.Results(), strings.Join(lines, "\n"))
	todo := fmt.Sprintf("metarouter writes nothing into %s: put these lines there, in place of an entry %q if there is one; then %s", source.Path, clients.EntryName, c.Restart)
	if e.Write {
		return errors.New(todo)
	}
	e.Console.Note("%s", todo)
	return nil
}

// noteEntry prints notes on our entry and the client's others.
func noteEntry(e *Editor, c clients.Client, entry clients.RouterEntry, own clients.Ours, others []clients.Other, replace bool) {
	if strings.HasPrefix(entry.Command, filepath.Clean(os.TempDir())+string(filepath.Separator)) && !strings.Contains(filepath.ToSlash(entry.Command), "/node_modules/") {
		e.Console.Note("note: %s is in a folder for temporary files; move it, and install again", entry.Command)
	}
	noteOwnConfiguration(e, c, entry, own, slices.ContainsFunc(others, func(o clients.Other) bool { return !o.Router }))
	if variables, kind := c.Withheld(entry); len(variables) > 0 {
		e.Console.Note("note: %s keeps %s from servers, unless the entry names them as this one does: %s", c.Title, kind, strings.Join(variables, ", "))
	}
	if replace {
		noteReplacedServers(e, c, others)
	} else {
		noteOtherServers(e, c, others)
	}
}

// clientSource returns the named file of a client, or the usual one if file is "".
func clientSource(e *Editor, c clients.Client, file string) (clients.Source, error) {
	if file == "" {
		p, err := clients.ThisSystem()
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
func clientEntry(e *Editor, o InstallOptions) (entry clients.RouterEntry, err error) {
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
func noteOwnConfiguration(e *Editor, c clients.Client, entry clients.RouterEntry, own clients.Ours, some bool) {
	switch paths := strings.Join(entry.Configs, ", "); {
	case len(own.Files) == 0 && !some:
		e.Console.Note("note: %s does not exist yet, so metarouter would have no servers; make it with 'metarouter init%s --write'", paths, e.Flags())
	case len(own.Files) == 0:
		e.Console.Note("note: %s does not exist yet, so metarouter would have no servers; make it with 'metarouter import %s --write' or 'metarouter init --write'", paths, c.Name)
	case len(own.Config.Servers) == 0 && !some:
		e.Console.Note("note: %s has no servers yet; add one with 'metarouter add NAME%s --write -- COMMAND'", paths, e.Flags())
	case len(own.Config.Servers) == 0:
		e.Console.Note("note: %s has no servers yet; 'metarouter import %s --write' copies those of %s", paths, c.Name, c.Title)
	}
}

// noteReplacedServers says how our entries of the client's servers differ from the client's.
func noteReplacedServers(e *Editor, c clients.Client, others []clients.Other) {
	for _, o := range others {
		if o.Differs != "" {
			e.Console.Note("note: server %q has changed since you imported it: %s", o.Name, o.Differs)
		}
		if o.Broken != "" {
			e.Console.Note("note: server %q can't start with the entry in your configuration: %s", o.Name, o.Broken)
		}
		if o.Version != "" {
			e.Console.Note("note: server %q: %s", o.Ours, o.Version)
		}
		if o.Disabled {
			e.Console.Note("note: %s will not have the server %s, which is disabled in your configuration; 'metarouter enable %[2]s --write' brings it back", c.Title, o.Ours)
		}
	}
}

// noteOtherServers names the client's other servers, by their fate.
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
	advice := "--replace takes them out of " + c.Title + "'s file"
	if !c.Rewrites() {
		advice = "delete them from " + c.Title + "'s file"
	}
	say("these servers would run twice, once started by "+c.Title+" and once by metarouter", twice, "%s", advice)
	say("not in metarouter yet", alone, "'metarouter import %s --write' copies them", c.Name)
}
