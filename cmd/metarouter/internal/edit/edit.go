// Package edit carries out the commands that change configuration files, ours and the clients'.
// Each shows the change, and writes it if the person asked for that. The rest of a file stays as it
// is, byte for byte; package clients makes the texts. It carries out the commands on stored secrets, too.
package edit

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/clients"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/configfile"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/console"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/audit"
	"github.com/mcp-metarouter/metarouter/internal/commandline"
	"github.com/mcp-metarouter/metarouter/internal/configpath"
	"github.com/mcp-metarouter/metarouter/internal/plain"
)

// notWritten ends the output without --write.
const notWritten = "nothing was written; add --write"

// An Editor edits configuration files.
type Editor struct {
	*configfile.Source
	Write bool // --write: else the change is only shown

	// Offer offers the logins at servers of files that were just written, of [Add] and [Import].
	Offer func(ctx context.Context, files, names []string) error
}

// mayNeedLogin comes before the names of servers.
const mayNeedLogin = "note: may need a login in the browser (OAuth), once for all clients"

// noteNames prints the names of servers or entries, if there are any, with what is said of them before and behind.
func (e *Editor) noteNames(before string, names []string, behind string) {
	if len(names) > 0 {
		e.Console.Note("%s: %s%s", before, strings.Join(names, ", "), behind)
	}
}

// A file is one of the configuration in use, or a client's, with the text that it is to have.
type file struct {
	clients.File
	text  []byte
	keep  fs.FileMode // the mode loses the bits that keep does not have
	found bool        // it is the .mcp.json of the current folder, and --config does not name it

	isClients bool // it is a client's file
}

// inUse returns the files of the configuration in use, as [configpath.Find] finds them. Without
// a configuration, it returns the user's own file. The last file need not exist.
func (e *Editor) inUse() (files []file, err error) {
	paths, named, err := configpath.Find(e.Paths)
	if errors.Is(err, fs.ErrNotExist) {
		named = true
		paths, err = e.own()
	}
	if err != nil {
		return nil, console.Usage(err)
	}
	for i, path := range paths {
		f, err := clients.Read(path)
		if err == nil && !f.Exists && i < len(paths)-1 {
			err = &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
		}
		if err != nil {
			return nil, console.Usage(configfile.Unreadable(err))
		}
		files = append(files, file{File: f, text: f.Data, keep: fs.ModePerm, found: !named})
	}
	return files, nil
}

func pathsOf(files []file) (paths []string) {
	for _, f := range files {
		paths = append(paths, f.Path)
	}
	return paths
}

// fileOf returns the last file that has the server, since its entry counts, and the number of files that have it.
func fileOf(files []file, name string) (found file, number int, err error) {
	for _, f := range files {
		ok, err := clients.HasServer(f.Path, f.Data, name)
		if err != nil {
			return f, 0, console.Usage(err)
		}
		if ok {
			found = f
			number++
		}
	}
	return found, number, nil
}

// apply shows the change, and writes it if that is asked for. It reports whether the
// edit is in use now.
func (e *Editor) apply(f file) (used bool, err error) {
	e.printDiff(clients.Diff(f.Path, f.Data, f.text))
	if own, err := configpath.Own(); err == nil && f.found {
		e.Console.Note("note: %s is the configuration that is used in this folder; for your own, add --config %s", f.Path, commandline.Quote(own))
	}
	switch {
	case string(f.text) == string(f.Data):
		e.Console.Note("nothing to do for %s", f.Path)
		return false, nil
	case !e.Write:
		e.Console.Note(notWritten)
		return false, nil
	}
	if f.isClients {
		return true, e.write(f.File, f.text, f.keep)
	}
	approved, err := e.writeOurs(f.File, f.text, f.keep)
	switch {
	case err != nil:
		return false, err
	case f.found && !approved:
		e.Console.Note("note: this edit of %s is not used before you approve it: read the file, then run 'metarouter trust'", f.Path)
		return false, nil
	case f.Exists:
		e.Console.Note("a running router uses it at once")
	}
	return true, nil
}

// writeOurs writes a file of our own configuration. Where the old content was approved, or
// the file is new, it approves the new content: the user asked for it. It reports whether
// that is approved.
func (e *Editor) writeOurs(f clients.File, data []byte, keep fs.FileMode) (approved bool, err error) {
	var was config.Config
	if f.Exists {
		was, err = config.ReadText(f.Path, f.Data)
		approved = err == nil && was.Text.Trusted(e.Data) == nil // if no approval counts, the user is asked again
	} else {
		approved = filepath.Base(f.Path) == ".mcp.json" && e.Data != "" // others need no approval
	}
	if err := e.write(f, data, keep); err != nil || !approved {
		return false, err
	}
	is, err := config.ReadText(f.Path, data)
	if err == nil && !reflect.DeepEqual(slices.Concat(is.Text.Scripts...), slices.Concat(was.Text.Scripts...)) {
		return false, nil // the user may not have read the scripts
	}
	if err == nil {
		err = is.Text.Trust(e.Data)
	}
	if err == nil && f.Exists {
		e.Console.Note("it was approved before, and is approved as it is now")
	}
	return err == nil, err
}

// write replaces a file and names the copy of the old one.
func (e *Editor) write(f clients.File, data []byte, keep fs.FileMode) error {
	first := len(f.Backups()) == 0
	backup, err := f.Write(data, keep, time.Now())
	if err != nil {
		return err
	}
	e.Record(audit.Event{Action: audit.Edit, Outcome: audit.OK, Target: f.Path, Reason: "written by a command"})
	if backup == "" {
		e.Console.Note("%s is written", f.Path)
		return nil
	}
	e.Console.Note("%s is written; its old content is in %s", f.Path, backup)
	if clients.Hides(f.Path, f.Data) && !clients.Hides(f.Path, data) {
		e.Console.Note("note: the copy has values that may be secret; delete it when all works")
	}
	if folder := filepath.Dir(f.Path); first && clients.Exists(filepath.Join(folder, ".git")) {
		e.Console.Note("note: the copy has the values of the file; do not commit it (in .gitignore: *%s*)", clients.BackupMark)
	}
	return nil
}

// Replace shows how a text file would change, and writes it.
func (e *Editor) Replace(f clients.File, text string) error {
	e.printDiff(clients.TextDiff(f.Path, f.Data, []byte(text)))
	return e.write(f, []byte(text), 0o644)
}

// printDiff prints a diff on stdout.
func (e *Editor) printDiff(diff string) {
	_, colours := e.Console.Page()
	for line := range strings.Lines(diff) {
		line = plain.Text(strings.TrimSuffix(line, "\n"))
		colour := console.Plain
		switch {
		case strings.HasPrefix(line, "---"), strings.HasPrefix(line, "+++"):
			colour = console.Bold
		case strings.HasPrefix(line, "@@"):
			colour = console.Cyan
		case strings.HasPrefix(line, "-"):
			colour = console.Red
		case strings.HasPrefix(line, "+"):
			colour = console.Green
		}
		fmt.Fprintln(e.Console.Out, console.Paint(line, colour, colours))
	}
}

// Server edits the entry of a server: change returns the new text of the file at path.
func Server(e *Editor, name string, change func(path string, data []byte, name string) ([]byte, error)) error {
	files, err := e.inUse()
	if err != nil {
		return err
	}
	if len(files) == 1 && !files[0].Exists {
		return configfile.Missing()
	}
	f, number, err := fileOf(files, name)
	if err != nil {
		return err
	}
	if number == 0 {
		return noSuchServer(files, name)
	}
	if f.text, err = change(f.Path, f.Data, name); err != nil {
		return err
	}
	if left, _ := clients.HasServer(f.Path, f.text, name); !left && number > 1 {
		e.Console.Note("note: an earlier file has another entry of that name, which is used instead")
	}
	_, err = e.apply(f)
	return err
}

// noSuchServer names the servers that there are.
func noSuchServer(files []file, name string) error {
	c, err := config.LoadText(pathsOf(files)...)
	if err != nil {
		return console.Usage(configfile.Unreadable(err))
	}
	if s, _ := configfile.Server(c, name); s.Transport == config.Scripts {
		return console.Usage(fmt.Errorf("%q has no entry: it has the stored scripts of %s; move their files, or edit \"folder\"", name, c.Router.Scripts.Folder))
	}
	return console.Usage(fmt.Errorf("%s: %w", strings.Join(pathsOf(files), ", "), configfile.UnknownName("server", name, configfile.ServerNames(c))))
}

// Init writes a first configuration.
func Init(e *Editor) error {
	paths, err := e.own()
	if err != nil {
		return err
	}
	if len(paths) > 1 {
		return console.Usage(errors.New("name one file with --config"))
	}
	f, err := clients.Read(paths[0])
	if err != nil {
		return err
	}
	if f.Exists {
		return console.Usage(fmt.Errorf("%s exists already, and stays as it is; add servers to it with 'metarouter add' or 'metarouter import'", f.Path))
	}
	folder, err := os.Getwd()
	if err != nil {
		return err
	}
	home, _ := os.UserHomeDir()
	text, files := clients.FirstFile(f.Path, folder, home)
	if files {
		e.Console.Note("note: clients can read the files of %s through the server \"files\"; write another folder, or remove it", folder)
	}
	if place, err := clients.ThisSystem(); err == nil {
		for _, found := range clients.Survey(place, folder) {
			e.Console.Note("note: %s can be used too: %s", found, found.Command())
		}
	}
	if _, err := e.apply(file{File: f, text: text, keep: fs.ModePerm}); err != nil || !e.Write {
		return err
	}
	e.Console.Note("next: metarouter servers, then metarouter install CLIENT --write")
	return nil
}

// own returns the absolute paths of the configuration that clients are to use: the
// files of --config, else the user's own. A .mcp.json in the current folder belongs to a
// project, and a client's entry for the user does not.
func (e *Editor) own() ([]string, error) {
	if len(e.Paths) == 0 {
		own, err := configpath.Own()
		return []string{own}, console.Usage(err)
	}
	paths, _, err := configpath.Find(e.Paths)
	return paths, console.Usage(err)
}
