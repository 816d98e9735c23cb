package edit

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/clients"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/console"
	"github.com/mcp-metarouter/metarouter/internal/commandline"
)

// An Installation is the change of a client's file.
type Installation struct {
	ClientFile
	Version  string   // of this program
	Replace  bool     // --replace
	Each     bool     // --each
	Undo     bool     // --undo
	Only     []string // --only: the servers of --each
	WithData bool     // --data was given

	e      *Editor
	source clients.Source
	file   clients.File
	entry  clients.RouterEntry
	own    clients.Ours
	others []clients.Other
	was    clients.Record // of earlier installations
}

// Install adds an entry that starts this program, or replaces it, in a client's configuration.
func Install(e *Editor, client string, in Installation) (err error) {
	in.e = e
	if err := in.setEntry(); err != nil {
		return err
	}
	c, _ := clients.Find(client)
	if in.source, err = in.clientSource(c); err != nil {
		return err
	}
	if in.file, err = clients.Read(in.source.Path); err != nil {
		return err
	}
	in.source.Data = in.file.Data
	if in.entry.IsOwn(in.source.Path) {
		return console.Usage(fmt.Errorf("%s is metarouter's own configuration, and an entry in it would start metarouter within metarouter; name another with --file or --config", in.source.Path))
	}
	records, all, err := readStored[clients.Record](replacedFile)
	if err != nil {
		return err
	}
	if in.was = all[in.file.ID(in.source)]; in.Undo {
		return in.undo(records)
	}
	if in.own, err = readOurs(in.entry.Configs); err != nil {
		return err
	}
	in.entry.Variables, in.entry.Chosen = in.own.Variables(), clients.NamesMode(in.own.Config)
	if in.others, err = clients.Others(in.source, in.entry.Configs[len(in.entry.Configs)-1], in.own); err != nil {
		return err
	}
	places, gone := []clients.Place{{Name: clients.EntryName}}, []string(nil)
	switch {
	case in.Each:
		if places, gone, err = in.each(); err != nil {
			return err
		}
	case in.Replace:
		gone = clients.Needless(in.others)
	}
	in.noteOwnConfiguration()
	in.noteOtherServers()
	if !c.Rewrites() {
		return in.printLines(clients.Lines(c, in.entry, places))
	}
	result, err := clients.Install(in.source, in.entry, places, gone)
	if err != nil {
		return err
	}
	return in.record(result)
}

// readOurs reads the files of our configuration, and what was imported into the last of them.
func readOurs(paths []string) (clients.Ours, error) {
	own, err := clients.ReadOurs(paths)
	if err != nil {
		return own, console.Usage(err)
	}
	_, imported, err := readStored[map[string]string](importedFile)
	own.Imported = imported[paths[len(paths)-1]]
	return own, err
}

// put writes the client's file.
func (in *Installation) put(result []byte) error {
	if folder := filepath.Dir(in.file.Path); !clients.Exists(folder) {
		in.e.Console.Note("note: there is no folder %s; is %s installed? (--file names another file)", folder, in.source.Client.Title)
	}
	used, err := in.e.apply(file{File: in.file, text: result, keep: fs.ModePerm, isClients: true})
	if used && err == nil {
		in.e.Console.Note("now %s", in.source.Client.Restart)
	}
	return err
}

// printLines prints the lines of entries, which a person puts in place of the present ones.
func (in *Installation) printLines(lines []string) error {
	fmt.Fprintln(in.e.Console.Results(), strings.Join(lines, "\n"))
	present := fmt.Sprintf("an entry %q", clients.EntryName)
	if in.Each {
		present = fmt.Sprintf("each entry of the same name, and of %q,", clients.EntryName)
	}
	todo := fmt.Sprintf("metarouter writes nothing into %s: put these lines there, in place of %s if there is one; then %s", in.source.Path, present, in.source.Client.Restart)
	if in.e.Write {
		return errors.New(todo)
	}
	in.e.Console.Note("%s", todo)
	return nil
}

// clientSource returns the file of a client that is to be changed.
func (in *Installation) clientSource(c clients.Client) (clients.Source, error) {
	sources, err := in.sources(c)
	if err != nil {
		return clients.Source{}, err
	}
	source := sources[0]
	inProject := func(s clients.Source) bool {
		return strings.HasPrefix(s.Path, s.Project) && clients.Exists(s.Path)
	}
	if i := slices.IndexFunc(sources, inProject); i > 0 {
		source = sources[i]
	}
	if in.Each && in.File != "" && source.Project != "" {
		return source, console.Usage(fmt.Errorf("%s belongs to all who work in %s; to change it, write --project %s in place of --file", source.Path, source.Project, commandline.Quote(source.Project)))
	}
	return source, nil
}

// setEntry makes the entry for clients.
func (in *Installation) setEntry() (err error) {
	if in.entry.Command, in.entry.Before, err = clients.OwnProgram(in.Version); err != nil {
		return err
	}
	if in.entry.Configs, err = in.e.own(); err != nil || !in.WithData {
		return err
	}
	data := in.e.Data
	if data != "" {
		data, err = filepath.Abs(data)
	}
	in.entry.Data = &data
	return err
}

// noteOwnConfiguration warns if the entry would start a router without servers.
func (in *Installation) noteOwnConfiguration() {
	if len(in.own.Config.Servers) > 0 {
		return
	}
	advice := "metarouter init"
	if slices.ContainsFunc(in.others, func(o clients.Other) bool { return !o.Router }) {
		advice = "metarouter import " + in.source.Client.Name + in.flags()
	}
	in.e.Console.Note("note: metarouter would have no servers, since %s has none yet; run: %s --write", strings.Join(in.entry.Configs, ", "), advice)
}

// noteOtherServers names the client's other servers, by their fate.
func (in *Installation) noteOtherServers() {
	title, command := in.source.Client.Title, "'metarouter import "+in.source.Client.Name+in.flags()
	var twice, alone, routers, single []string
	for _, o := range in.others {
		switch {
		case o.Stale && (in.Each || in.Replace):
		case o.Only != "":
			single = append(single, o.Name)
		case o.Router:
			routers = append(routers, o.Name)
		case o.Stays != "":
			in.e.Console.Note("note: %q stays in %s's file: %s; to take the client's, remove yours and import it again", o.Name, title, o.Stays)
		case len(o.Differs) > 0 && (in.Replace || in.Each && (in.Only == nil || slices.Contains(in.Only, o.Ours))):
			in.e.Console.Note("note: %q of %s goes, though yours has changed in %q since it was imported; yours is used", o.Name, title, o.Differs)
		case o.Ours != "":
			twice = append(twice, o.Name)
		default:
			alone = append(alone, o.Name)
		}
	}
	in.e.noteNames("note: these entries start metarouter too", routers, "; remove them")
	in.e.noteNames("note: not in metarouter yet", alone, "; "+command+" --write' copies them")
	if in.Replace || in.Each {
		return
	}
	advice := "--replace takes them out of " + title + "'s file"
	if !in.source.Client.Rewrites() {
		advice = "delete them from " + title + "'s file"
	}
	in.e.noteNames("note: these servers would run twice, once started by "+title+" and once by metarouter", twice, "; "+advice)
	in.e.noteNames("note: these entries show single servers", single, "; "+advice)
}
