package edit

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/clients"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/console"
	"github.com/mcp-metarouter/metarouter/internal/commandline"
)

// InstallOptions say which entry is installed where.
type InstallOptions struct {
	Version  string   // of this program
	File     string   // --file
	Project  string   // --project
	Replace  bool     // --replace
	Each     bool     // --each
	Undo     bool     // --undo
	Only     []string // --only: the servers of --each
	WithData bool     // --data was given
}

// Install adds an entry that starts this program, or replaces it, in a client's configuration.
func Install(e *Editor, client string, o InstallOptions) error {
	entry, err := clientEntry(e, o)
	if err != nil {
		return err
	}
	c, _ := clients.Find(client)
	source, err := clientSource(e, c, o)
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
	own.Imported, _ = stored(importedFile, entry.Configs[len(entry.Configs)-1], nil)
	entry.Variables, entry.Chosen = own.Variables(), clients.NamesMode(own.Config)
	others, err := clients.Others(c, source, entry.Configs[len(entry.Configs)-1], own)
	if err != nil {
		return err
	}
	switch {
	case o.Undo:
		return undo(e, c, source, file)
	case o.Each:
		return installEach(e, c, source, file, entry, own, others, o.Only)
	case !c.Rewrites():
		return printEntry(e, c, source, entry, own, others)
	}
	result, err := clients.Install(c, source, entry)
	if err != nil {
		return err
	}
	if o.Replace {
		now := source
		now.Data = result
		if result, err = clients.WithoutOthers(c, now, others); err != nil {
			return err
		}
	}
	return writeEntries(e, c, source, file, result, o.Replace, func() { noteEntry(e, c, entry, own, others, o.Replace) })
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
	lines, err := clients.Lines(c, source, clients.EntryName, entry)
	if err != nil {
		return err
	}
	noteEntry(e, c, entry, own, others, false)
	return printLines(e, c, source, lines, fmt.Sprintf("an entry %q", clients.EntryName))
}

// printLines prints the lines of entries, which a person puts in place of the present ones.
func printLines(e *Editor, c clients.Client, source clients.Source, lines []string, present string) error {
	if lines == nil {
		e.Console.Note("%s has the entry already, in %s; nothing to do", c.Title, source.Path)
		return nil
	}
	fmt.Fprintln(e.Console.Results(), strings.Join(lines, "\n"))
	todo := fmt.Sprintf("metarouter writes nothing into %s: put these lines there, in place of %s if there is one; then %s", source.Path, present, c.Restart)
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
	noteOtherServers(e, c, others, replace)
}

// clientSource returns the file of a client that is to be changed.
func clientSource(e *Editor, c clients.Client, o InstallOptions) (clients.Source, error) {
	sources, err := sourcesOf(c, o.File, o.Project, func(p clients.System) []clients.Source {
		source, notes := c.UsualSource(p)
		for _, note := range notes {
			e.Console.Note("note: %s", note)
		}
		return []clients.Source{source}
	})
	if err != nil {
		return clients.Source{}, err
	}
	source := sources[0]
	inProject := func(s clients.Source) bool {
		return strings.HasPrefix(s.Path, s.Project) && clients.FirstExisting(s.Path) != ""
	}
	if i := slices.IndexFunc(sources, inProject); i > 0 {
		source = sources[i]
	}
	if o.Each && o.File != "" && source.Project != "" {
		return source, console.Usage(fmt.Errorf("%s belongs to all who work in %s; to change it, write --project %s in place of --file", source.Path, source.Project, commandline.Quote(source.Project)))
	}
	return source, nil
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
	if len(own.Config.Servers) > 0 {
		return
	}
	what, advice := "does not exist yet", fmt.Sprintf("make it with 'metarouter init%s --write'", e.Flags())
	if len(own.Files) > 0 {
		what, advice = "has no servers yet", fmt.Sprintf("add one with 'metarouter add NAME%s --write -- COMMAND'", e.Flags())
	}
	if some {
		advice = fmt.Sprintf("'metarouter import %s --write' copies those of %s", c.Name, c.Title)
	}
	e.Console.Note("note: %s %s, so metarouter would have no servers; %s", strings.Join(entry.Configs, ", "), what, advice)
}

// noteOtherServers names the client's other servers, by their fate. replace says that those that metarouter has go.
func noteOtherServers(e *Editor, c clients.Client, others []clients.Other, replace bool) {
	var twice, alone, routers, single []string
	for _, o := range others {
		switch {
		case o.Only != "":
			single = append(single, o.Name)
		case o.Router:
			routers = append(routers, o.Name)
		case o.Stays != "":
			e.Console.Note("note: %q stays in %s's file: %s; 'metarouter import %s --overwrite' takes the client's", o.Name, c.Title, o.Stays, c.Name)
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
	advice := "--replace takes them out of " + c.Title + "'s file"
	if !c.Rewrites() {
		advice = "delete them from " + c.Title + "'s file"
	}
	say("these entries start metarouter too", routers, "remove them")
	say("not in metarouter yet", alone, "'metarouter import %s --write' copies them", c.Name)
	if !replace {
		say("these servers would run twice, once started by "+c.Title+" and once by metarouter", twice, "%s", advice)
		say("these entries show single servers", single, "%s", advice)
	}
}
