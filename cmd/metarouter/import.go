package main

import (
	"context"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/clients"
)

// A takeover is what the flags of import say.
type takeover struct {
	file, project     string
	write             bool
	overwrite, rename bool
}

// choice is what becomes of names that ours has for other servers.
func (t takeover) choice() clients.Choice {
	switch {
	case t.overwrite:
		return clients.TakeTheirs
	case t.rename:
		return clients.TakeBoth
	}
	return clients.KeepOurs
}

func (a *app) importServers() *cobra.Command {
	var t takeover
	cmd := leaf("import CLIENT", "Take a client's servers over into your configuration",
		`  metarouter import claude-desktop            # show what would change
  metarouter import claude-desktop --write    # change it, and keep a copy
  metarouter import vscode --project ~/shop --config shop.json --write`,
		oneClient, func(_ context.Context, args []string) error { return a.takeOver(args[0], t) })
	cmd.Long = `Puts the servers of a client (` + strings.Join(clients.Names(), ", ") + `)
into your own configuration, or the last file of --config, which is made if need be.
The client's files stay as they are; see 'metarouter install'.

It prints what would change, with values that may be secret hidden. --write writes
it and keeps a copy of the old file beside it. Servers that you have already are
left out.`
	cmd.Flags().StringVar(&t.file, "file", "", "the client's `file`, if it is not the usual one")
	cmd.Flags().StringVar(&t.project, "project", "", "the servers of the project in this `folder`, not yours")
	cmd.Flags().BoolVar(&t.write, "write", false, "write the file, and keep a copy of the old one")
	cmd.Flags().BoolVar(&t.overwrite, "overwrite", false, "where you have another server of that name, take the client's")
	cmd.Flags().BoolVar(&t.rename, "rename", false, "where you have another server of that name, take the client's under another")
	cmd.MarkFlagsMutuallyExclusive("overwrite", "rename")
	cmd.MarkFlagsMutuallyExclusive("file", "project")
	_ = cmd.MarkFlagDirname("project")
	return cmd
}

func (a *app) takeOver(name string, t takeover) error {
	c, _ := clients.Find(name)
	sources, err := a.theirs(c, t)
	if err != nil {
		return err
	}
	paths, err := a.ownFiles()
	if err != nil {
		return err
	}
	own, err := ours(paths)
	if err != nil {
		return err
	}
	target, err := clients.Read(paths[len(paths)-1])
	if err != nil {
		return err
	}
	was, err := config.Read(target.Path, target.Data)
	trusted := err == nil && was.Trusted(a.data)
	done, err := clients.Import(c, sources, target.Path, target.Data, own, t.choice())
	if err != nil {
		return err
	}
	a.printDiff(target.Path, target.Data, done.Data)
	a.aboutProject()
	a.summary(done)
	if string(done.Data) == string(target.Data) {
		a.say("nothing to do for %s", target.Path)
		return nil
	}
	if !t.write {
		a.notWritten()
		return nil
	}
	keep := fs.ModePerm
	if done.Secrets {
		keep = 0o600
	}
	if err := a.write(target, done.Data, keep); err != nil {
		return err
	}
	if trusted { // by the same user who had this written
		is, err := config.Read(target.Path, done.Data)
		if err == nil {
			err = is.Trust(a.data)
		}
		if err != nil {
			return err
		}
	}
	a.say("now look at it with 'metarouter check', and have %s use it: metarouter install %s", c.Title, c.Name)
	return nil
}

// theirs reads the client's files.
func (a *app) theirs(c clients.Client, t takeover) ([]clients.Source, error) {
	var sources []clients.Source
	if t.file != "" {
		path, err := filepath.Abs(t.file)
		if err != nil {
			return nil, err
		}
		sources = []clients.Source{c.NamedSource(path)}
	} else {
		p, err := place()
		if err != nil {
			return nil, err
		}
		files := c.Files(p)
		user := firstFile(files)
		if user == "" {
			user = files[0]
		}
		if t.project == "" {
			sources = c.UserSources(p, user)
			for _, profile := range c.Profiles(p, user) {
				a.say("note: a profile of %s has servers of its own; for them, add --file %q", c.Title, profile)
			}
		} else {
			folder, err := filepath.Abs(t.project)
			if err != nil {
				return nil, err
			}
			if sources = c.ProjectSources(folder, user); sources == nil {
				return nil, usage(fmt.Errorf("%s has no servers of single projects; leave out --project", c.Title))
			}
		}
	}
	var there []clients.Source
	var looked []string
	for _, s := range sources {
		f, err := clients.Read(s.Path)
		if err != nil {
			return nil, err
		}
		looked = append(looked, s.Path)
		if s.Data = f.Data; f.Exists {
			there = append(there, s)
		}
	}
	if len(there) == 0 {
		return nil, fmt.Errorf("%s has no servers: there is no %s; name its file with --file", c.Title, strings.Join(looked, ", no "))
	}
	if folders := c.Projects(there[0]); t.project == "" && len(folders) > 0 {
		a.say("note: %s has further servers for single projects; for them, add --project %q", c.Title, folders[0])
		for _, folder := range folders[1:] {
			a.say("  or --project %q", folder)
		}
	}
	return there, nil
}

// summary says what becomes of each of the client's servers.
func (a *app) summary(done clients.Imported) {
	say := func(what string, names []string) {
		if len(names) > 0 {
			a.say("%s: %s", what, strings.Join(names, ", "))
		}
	}
	say("new", done.Added)
	say("theirs instead of yours", done.Replaced)
	say("there already", done.Same)
	say("another server in yours, which stays (--overwrite takes theirs, --rename takes both)", done.Conflicts)
	say("left out, since metarouter itself would be started", done.Routers)
	for _, note := range done.Notes {
		a.say("note: %s", note)
	}
	if len(done.Added)+len(done.Replaced)+len(done.Same)+len(done.Conflicts)+len(done.Routers) == 0 {
		a.say("there are no servers")
	}
}
