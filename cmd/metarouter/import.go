package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/clients"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/exit"
)

// importOptions are the flags of import.
type importOptions struct {
	file, project     string
	write, pin        bool
	overwrite, rename bool
}

// choice says what to do with names that our configuration has for other servers.
func (o importOptions) choice() clients.Choice {
	switch {
	case o.overwrite:
		return clients.TakeTheirs
	case o.rename:
		return clients.TakeBoth
	}
	return clients.KeepOurs
}

func newImportCommand(env *environment) *cobra.Command {
	var o importOptions
	cmd := newCommand("import CLIENT", "Copy a client's servers into your configuration",
		`  metarouter import claude-desktop            # show what would change
  metarouter import claude-desktop --write    # change it, and keep a copy
  metarouter import vscode --project ~/shop --config shop.json --write`,
		oneClient, func(ctx context.Context, args []string) error { return runImport(ctx, env, args[0], o) })
	cmd.Long = `Copies the servers of a client (` + strings.Join(clients.Names(), ", ") + `)
into your own configuration, or into the file of --config (the last one, if there are
several). The file is created if it does not exist. The client's files stay as they are; see 'metarouter install'.

It prints what would change, with values that may be secret hidden. --write writes
the file and keeps a copy of the old one next to it. Servers that you have already
are left out.`
	cmd.Flags().StringVar(&o.file, "file", "", "Read the servers from this `file` of the client. (default the file that the client reads on this system)")
	cmd.Flags().StringVar(&o.project, "project", "", "Take the servers of the project in this `folder`. By default those of the user are taken.")
	cmd.Flags().BoolVar(&o.write, "write", false, "Write the file, and keep a copy of the old one next to it. By default the change is only shown.")
	cmd.Flags().BoolVar(&o.pin, "pin", false, "Write the exact versions of npm and PyPI packages into the imported entries, so that they start faster; npm and uv say which. By default entries are copied as they are.")
	cmd.Flags().BoolVar(&o.overwrite, "overwrite", false, "Where you have another server of the same name, take the client's. By default yours stays.")
	cmd.Flags().BoolVar(&o.rename, "rename", false, "Where you have another server of the same name, import the client's under a new name. By default it is left out.")
	_ = cmd.MarkFlagDirname("project")
	return cmd
}

func runImport(ctx context.Context, env *environment, name string, o importOptions) error {
	switch {
	case o.overwrite && o.rename:
		return exit.Usage(errors.New("use --overwrite or --rename, not both"))
	case o.file != "" && o.project != "":
		return exit.Usage(errors.New("use --file or --project, not both"))
	}
	c, _ := clients.Find(name)
	sources, err := clientSources(env, c, o)
	if err != nil {
		return err
	}
	paths, err := ownFiles(env)
	if err != nil {
		return err
	}
	own, err := readOurs(paths)
	if err != nil {
		return err
	}
	target, err := clients.Read(paths[len(paths)-1])
	if err != nil {
		return err
	}
	done, err := clients.Import(c, sources, target.Path, target.Data, own, o.choice())
	if err != nil {
		return err
	}
	if o.pin {
		if err := pinImported(ctx, env, target.Path, &done); err != nil {
			return err
		}
	}
	printDiff(env, target.Path, target.Data, done.Data)
	noteProjectFile(env)
	printImported(env, done)
	if string(done.Data) == string(target.Data) {
		env.Note("nothing to do for %s", target.Path)
		return nil
	}
	if !o.write {
		env.Note(notWritten)
		return nil
	}
	keep := fs.ModePerm
	if done.Secrets {
		keep = 0o600
	}
	if _, err := writeOurs(env, target, done.Data, keep); err != nil {
		return err
	}
	if err := offerLogin(ctx, env, paths, done.Login); err != nil {
		return err
	}
	configs := env.files.Flags()
	replace := "" // else the client would start them too
	if o.file == "" && o.project == "" && len(done.Conflicts) == 0 {
		replace = " --replace"
	}
	env.Note("next: metarouter check%s, then metarouter install %s%s%s --write", configs, c.Name, configs, replace)
	return nil
}

// clientSources reads the client's files.
func clientSources(env *environment, c clients.Client, o importOptions) ([]clients.Source, error) {
	var sources []clients.Source
	if o.file != "" {
		path, err := filepath.Abs(o.file)
		if err != nil {
			return nil, err
		}
		sources = []clients.Source{c.NamedSource(path)}
	} else {
		p, err := clients.ThisPlace()
		if err != nil {
			return nil, err
		}
		files := c.Files(p)
		user := clients.FirstExisting(files...)
		if user == "" {
			user = files[0]
		}
		if o.project == "" {
			sources = c.UserSources(p, user)
			for _, profile := range c.Profiles(p, user) {
				env.Note("note: a profile of %s has servers of its own; for them, add --file %q", c.Title, profile)
			}
		} else {
			folder, err := filepath.Abs(o.project)
			if err != nil {
				return nil, err
			}
			if sources = c.ProjectSources(folder, user); sources == nil {
				return nil, exit.Usage(fmt.Errorf("%s has no servers of single projects; leave out --project", c.Title))
			}
		}
	}
	there, err := c.Existing(sources)
	if err != nil {
		return nil, err
	}
	if folders := c.Projects(there[0]); o.project == "" && len(folders) > 0 {
		env.Note("note: %s has further servers for single projects; for them, add --project %q", c.Title, folders[0])
		for _, folder := range folders[1:] {
			env.Note("  or --project %q", folder)
		}
	}
	return there, nil
}

// printImported says what was done with each of the client's servers.
func printImported(env *environment, done clients.Imported) {
	say := func(what string, names []string) {
		if len(names) > 0 {
			env.Note("%s: %s", what, strings.Join(names, ", "))
		}
	}
	say("new", done.Added)
	say("replaced with the client's version", done.Replaced)
	say("in your configuration already", done.Same)
	say("not imported, because your configuration has a different server of this name (--overwrite replaces yours, --rename imports it under a new name)", done.Conflicts)
	say("left out, because they start metarouter itself", done.Routers)
	noteLogin(env, done.Login)
	for _, note := range done.Notes {
		env.Note("note: %s", note)
	}
	if len(done.Added)+len(done.Replaced)+len(done.Same)+len(done.Conflicts)+len(done.Routers) == 0 {
		env.Note("the client has no servers")
	}
}
