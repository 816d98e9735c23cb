package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/clients"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/configfile"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/exit"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/plain"
)

// An edited file is one of the configuration in use, with what the user asks to be written.
type edited struct {
	clients.File
	text  []byte      // the new content
	keep  fs.FileMode // the mode loses the bits that keep does not have
	found bool        // it is the .mcp.json of the current folder, and --config does not name it
}

// filesInUse returns the files of the configuration in use, as config.Find finds them. If
// there is none yet, it returns the user's own file. The last file need not exist.
func filesInUse(env *environment) (files []edited, err error) {
	paths, named, err := config.Find(env.files.Paths)
	if errors.Is(err, fs.ErrNotExist) {
		own, err := config.Own()
		if err != nil {
			return nil, exit.Usage(err)
		}
		paths, named = []string{own}, true
	} else if err != nil {
		return nil, exit.Usage(err)
	}
	for i, path := range paths {
		f, err := clients.Read(path)
		if err == nil && !f.Exists && i < len(paths)-1 {
			err = &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
		}
		if err != nil {
			return nil, exit.Usage(configfile.Unreadable(err))
		}
		files = append(files, edited{File: f, text: f.Data, keep: fs.ModePerm, found: !named})
	}
	return files, nil
}

// fileOf returns the file whose entry of that name counts: the last one that has the
// server. place is where in it the entry is. The number of files that have the server is 0
// if none has it.
func fileOf(files []edited, name string) (file edited, place string, number int, err error) {
	for _, f := range files {
		line, column, ok, err := clients.PlaceOf(f.Path, f.Data, name)
		if err != nil {
			return f, "", 0, exit.Usage(err)
		}
		if ok {
			file, place = f, fmt.Sprintf("%s:%d:%d", f.Path, line, column)
			number++
		}
	}
	return file, place, number, nil
}

// noSuchServer names the servers that there are.
func noSuchServer(files []edited, name string) error {
	var paths []string
	var names []string
	for _, f := range files {
		paths = append(paths, f.Path)
		if !f.Exists {
			continue
		}
		c, err := config.LoadText(f.Path)
		if err != nil {
			return exit.Usage(err)
		}
		for _, s := range c.Servers {
			if s := plain.Line(s.Name); !slices.Contains(names, s) {
				names = append(names, s)
			}
		}
	}
	if len(names) == 0 {
		return exit.Usage(fmt.Errorf("no server is called %q; %s has no server", name, strings.Join(paths, ", ")))
	}
	like := ""
	if s, ok := config.Similar(name, names); ok {
		like = fmt.Sprintf("did you mean %q? ", s)
	}
	const most = 20
	if more := len(names) - most; more > 0 {
		names = append(names[:most], fmt.Sprintf("and %d more", more))
	}
	return exit.Usage(fmt.Errorf("no server is called %q; %sthe servers of %s are %s", name, like, strings.Join(paths, ", "), strings.Join(names, ", ")))
}

// apply shows what the edit changes, and writes it if write is set. It reports whether the
// edit is in use now.
func (f edited) apply(env *environment, write bool) (used bool, err error) {
	printDiff(env, f.Path, f.Data, f.text)
	if own, err := config.Own(); err == nil && f.found {
		env.Note("note: %s is the configuration that is used in this folder; for your own, add --config %s", f.Path, clients.Word(own))
	}
	switch {
	case string(f.text) == string(f.Data):
		env.Note("nothing to do for %s", f.Path)
		return false, nil
	case !write:
		env.Note(notWritten)
		return false, nil
	}
	approved, err := writeOurs(env, f.File, f.text, f.keep)
	switch {
	case err != nil:
		return false, err
	case f.found && !approved:
		env.Note("note: this edit of %s is not used before you approve it: read the file, then run 'metarouter trust'", f.Path)
		return false, nil
	case f.Exists:
		env.Note("a running router uses it at once")
	}
	return true, nil
}

// writeOurs writes a file of our own configuration. Where the old content was approved, or
// there was none, it approves what is written: the user asked for it. It reports whether
// that is approved.
func writeOurs(env *environment, f clients.File, data []byte, keep fs.FileMode) (approved bool, err error) {
	if f.Exists {
		was, err := config.ReadText(f.Path, f.Data)
		if err == nil {
			approved = was.Trusted(env.files.Data) == nil // if no approval counts, the user is asked again
		}
	} else {
		approved = filepath.Base(f.Path) == ".mcp.json" && env.files.Data != "" // others need no approval
	}
	if err := writeFile(env, f, data, keep); err != nil || !approved {
		return false, err
	}
	is, err := config.ReadText(f.Path, data)
	if err == nil {
		err = is.Trust(env.files.Data)
	}
	if err == nil && f.Exists {
		env.Note("it was approved before, and is approved as it is now")
	}
	return err == nil, err
}

// serverName checks that the name of a server is the only argument.
var serverName = arguments(1, 1, "name one server")

// newServerEdit returns a command that edits the entry of one server.
func newServerEdit(env *environment, verb, short, long string, edit func(f edited, name string) ([]byte, error)) *cobra.Command {
	var write bool
	cmd := newCommand(verb+" NAME", short, fmt.Sprintf("  metarouter %s github            # show what would change\n  metarouter %s github --write    # change it, and keep a copy", verb, verb),
		serverName, func(_ context.Context, args []string) error { return runServerEdit(env, args[0], write, edit) })
	cmd.Long = long + `

It prints what would change, with values that may be secret hidden. --write writes
the file and keeps a copy of the old one next to it. Everything else in the file
stays as it is, byte for byte. Of several files, the one that has the entry is edited.`
	addWriteFlag(cmd, &write)
	addScopeFlag(env, cmd)
	return cmd
}

func runServerEdit(env *environment, name string, write bool, edit func(f edited, name string) ([]byte, error)) error {
	files, err := filesInUse(env)
	if err != nil {
		return err
	}
	if len(files) == 1 && !files[0].Exists {
		return configfile.Missing()
	}
	f, place, number, err := fileOf(files, name)
	if err != nil {
		return err
	}
	if number == 0 {
		return noSuchServer(files, name)
	}
	if f.text, err = edit(f, name); err != nil {
		return err
	}
	if len(files) > 1 {
		env.Note("the entry is at %s", place)
	}
	if _, _, left, _ := clients.PlaceOf(f.Path, f.text, name); !left && number > 1 {
		env.Note("note: an earlier file has another entry of that name, which is used instead")
	}
	_, err = f.apply(env, write)
	return err
}

func newRemoveCommand(env *environment) *cobra.Command {
	return newServerEdit(env, "remove", "Remove a server from the configuration",
		"Removes a server from the configuration in use. 'metarouter disable' keeps its entry.",
		func(f edited, name string) ([]byte, error) { return clients.RemoveServer(f.Path, f.Data, name) })
}

func newDisableCommand(env *environment) *cobra.Command {
	return newServerEdit(env, "disable", "Disable a server in the configuration",
		"Disables a server in the configuration in use: its entry stays, and it is not started.",
		func(f edited, name string) ([]byte, error) { return clients.DisableServer(f.Path, f.Data, name, true) })
}

func newEnableCommand(env *environment) *cobra.Command {
	return newServerEdit(env, "enable", "Enable a disabled server in the configuration",
		"Enables a server in the configuration in use that was disabled there.",
		func(f edited, name string) ([]byte, error) { return clients.DisableServer(f.Path, f.Data, name, false) })
}

func addWriteFlag(cmd *cobra.Command, write *bool) {
	cmd.Flags().BoolVar(write, "write", false, "Write the file, and keep a copy of the old one next to it. By default the change is only shown.")
}

// addScopeFlag gives cmd the flag --scope of 'claude mcp', which means nothing here.
func addScopeFlag(env *environment, cmd *cobra.Command) {
	var scope string
	cmd.Flags().StringVarP(&scope, "scope", "s", "", "This `scope` is ignored, as there are none here; --config names the file. The flag exists so that a line for 'claude mcp' works.")
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if scope != "" {
			env.Note("note: --scope %s is ignored: metarouter has no scopes; --config names the file to edit", scope)
		}
		return run(cmd, args)
	}
}

// startFolder returns the current folder, for an entry whose words are relative to it: a
// server starts in the folder of the router.
func startFolder(words []string) (string, error) {
	if !slices.ContainsFunc(words, func(word string) bool {
		word = filepath.ToSlash(word)
		return word == "." || word == ".." || strings.HasPrefix(word, "./") || strings.HasPrefix(word, "../")
	}) {
		return "", nil
	}
	return os.Getwd()
}
