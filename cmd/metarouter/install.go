package main

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/clients"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/exit"
)

// installOptions are the flags of install.
type installOptions struct {
	file    string
	write   bool
	replace bool
	data    bool // --data was given
}

func newInstallCommand(env *environment) *cobra.Command {
	var o installOptions
	var cmd *cobra.Command
	cmd = newCommand("install CLIENT", "Add an entry for metarouter to a client's configuration",
		`  metarouter install claude-desktop            # show what would change
  metarouter install claude-desktop --write    # change it, and keep a copy
  metarouter import cursor --write && metarouter install cursor --replace --write`,
		oneClient, func(_ context.Context, args []string) error {
			o.data = cmd.Flags().Changed("data")
			return runInstall(env, args[0], o)
		})
	cmd.Long = `Adds an entry that starts this metarouter, with your own configuration or that of
--config, to the configuration of a client: ` + strings.Join(clients.Names(), ", ") + `.

It prints what would change, with values that may be secret hidden. --write writes
the file and keeps a copy of the old one next to it. Everything else in the file
stays as it is, byte for byte.`
	cmd.Flags().StringVar(&o.file, "file", "", "Change this `file` of the client. (default the file that the client reads on this system)")
	cmd.Flags().BoolVar(&o.write, "write", false, "Write the file, and keep a copy of the old one next to it. By default the change is only shown.")
	cmd.Flags().BoolVar(&o.replace, "replace", false, "Remove the client's other entries, so that only metarouter is left. This is refused if your configuration lacks one of them. By default they stay.")
	return cmd
}

func runInstall(env *environment, name string, o installOptions) error {
	entry, err := clientEntry(env, o.data)
	if err != nil {
		return err
	}
	c, _ := clients.Find(name)
	source, err := clientSource(env, c, o.file)
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
	own, err := readOurs(entry.Configs)
	if err != nil {
		return err
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
	if o.replace {
		now := source
		now.Data = result
		if result, err = clients.WithoutOthers(c, now, entry, others); err != nil {
			return err
		}
	}
	printDiff(env, source.Path, file.Data, result)
	noteProjectFile(env)
	noteEntry(env, c, entry, own, others, o.replace)
	if folder := filepath.Dir(source.Path); clients.FirstExisting(folder) == "" {
		env.Note("note: there is no folder %s; is %s installed? (--file names another file)", folder, c.Title)
	}
	switch {
	case string(result) == string(file.Data):
		env.Note("%s has the entry already, in %s; nothing to do", c.Title, source.Path)
	case !o.write:
		env.Note(notWritten)
	default:
		if err := writeFile(env, file, result, fs.ModePerm); err != nil {
			return err
		}
		env.Note("now %s", c.Restart())
	}
	return nil
}

// noteEntry says what a person should know of our entry and the client's others.
func noteEntry(env *environment, c clients.Client, entry clients.Entry, own clients.Ours, others []clients.Other, replace bool) {
	if strings.HasPrefix(entry.Command, filepath.Clean(os.TempDir())+string(filepath.Separator)) && !strings.Contains(filepath.ToSlash(entry.Command), "/node_modules/") {
		env.Note("note: %s is in a folder for temporary files; move it, and install again", entry.Command)
	}
	noteOwnConfiguration(env, c, entry, own, slices.ContainsFunc(others, func(o clients.Other) bool { return !o.Router }))
	if passed := c.Passes(entry); len(passed) > 0 {
		env.Note("note: %s keeps variables that look secret from servers, unless the entry names them as this one does: %s", c.Title, strings.Join(passed, ", "))
	}
	if replace {
		noteDisabledServers(env, c, others)
	} else {
		noteOtherServers(env, c, others)
	}
}

// clientSource returns the named file of a client, or the usual one if file is "".
func clientSource(env *environment, c clients.Client, file string) (clients.Source, error) {
	if file == "" {
		p, err := clients.ThisPlace()
		if err != nil {
			return clients.Source{}, err
		}
		source, notes := c.UsualSource(p)
		for _, note := range notes {
			env.Note("note: %s", note)
		}
		return source, nil
	}
	path, err := filepath.Abs(file)
	return c.NamedSource(path), err
}

// clientEntry returns the entry for clients. withData says that --data was given.
func clientEntry(env *environment, withData bool) (e clients.Entry, err error) {
	if e.Command, e.Before, err = clients.OwnProgram(version); err != nil {
		return e, err
	}
	if e.Configs, err = ownFiles(env); err != nil || !withData {
		return e, err
	}
	data := env.files.Data
	if data != "" {
		data, err = filepath.Abs(data)
	}
	e.Data = &data
	return e, err
}

// noteOwnConfiguration warns if the entry would start a router without servers. some says that
// the client has servers to import.
func noteOwnConfiguration(env *environment, c clients.Client, e clients.Entry, own clients.Ours, some bool) {
	switch {
	case len(own.Files) == 0 && !some:
		env.Note("note: %s does not exist yet, so metarouter would have no servers; make it with 'metarouter init%s --write'", strings.Join(e.Configs, ", "), env.files.Flags())
	case len(own.Files) > 0 && len(own.Config.Servers) == 0 && !some:
		env.Note("note: %s has no servers yet; add one with 'metarouter add NAME%s --write -- COMMAND'", strings.Join(e.Configs, ", "), env.files.Flags())
	case len(own.Files) == 0:
		env.Note("note: %s does not exist yet, so metarouter would have no servers; make it with 'metarouter import %s --write' or 'metarouter init --write'", strings.Join(e.Configs, ", "), c.Name)
	case len(own.Config.Servers) == 0:
		env.Note("note: %s has no servers yet; 'metarouter import %s --write' copies those of %s", strings.Join(e.Configs, ", "), c.Name, c.Title)
	}
}

// noteDisabledServers says which of the client's servers are lost to it, since they are
// disabled in our configuration.
func noteDisabledServers(env *environment, c clients.Client, others []clients.Other) {
	for _, o := range others {
		if o.Disabled {
			env.Note("note: %s will not have the server %s, which is disabled in your configuration; 'metarouter enable %[2]s --write' brings it back", c.Title, o.Ours)
		}
	}
}

// noteOtherServers says what happens to the client's other servers.
func noteOtherServers(env *environment, c clients.Client, others []clients.Other) {
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
			env.Note("note: %s: %s; %s", what, strings.Join(names, ", "), fmt.Sprintf(format, args...))
		}
	}
	say("these entries start metarouter too", routers, "remove them")
	say("these servers would run twice, once started by "+c.Title+" and once by metarouter", twice, "--replace takes them out of %s's file", c.Title)
	say("not in metarouter yet", alone, "'metarouter import %s --write' copies them", c.Name)
}
