package edit

import (
	"context"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/clients"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/exit"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/logins"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/oneshot"
)

// ImportOptions are the flags of import.
type ImportOptions struct {
	File, Project string
	Pin           bool
	Choice        clients.Choice // what to do with names that our configuration has for other servers
}

// Import copies the servers of a client into our configuration, and offers to log in to those that may
// need it.
func Import(ctx context.Context, e *Editor, local *oneshot.Runner, client string, o ImportOptions) error {
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
		return exit.Usage(err)
	}
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
	if string(done.Data) == string(target.Data) {
		e.Console.Note("nothing to do for %s", target.Path)
		return nil
	}
	if !e.Write {
		e.Console.Note(notWritten)
		return nil
	}
	keep := fs.ModePerm
	if done.Secrets {
		keep = 0o600
	}
	if _, err := e.writeOurs(target, done.Data, keep); err != nil {
		return err
	}
	if err := logins.Offer(ctx, local, paths, done.Login); err != nil {
		return err
	}
	configs := e.Flags()
	replace := "" // else the client would start them too
	if o.File == "" && o.Project == "" && len(done.Conflicts) == 0 {
		replace = " --replace"
	}
	e.Console.Note("next: metarouter check%s, then metarouter install %s%s%s --write", configs, c.Name, configs, replace)
	return nil
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
		p, err := clients.ThisPlace()
		if err != nil {
			return nil, err
		}
		files := c.Files(p)
		user := clients.FirstExisting(files...)
		if user == "" {
			user = files[0]
		}
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
				return nil, exit.Usage(fmt.Errorf("%s has no servers of single projects; leave out --project", c.Title))
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

// noteImported says what was done with each of the client's servers.
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
	logins.Note(e.Console, done.Login)
	for _, note := range done.Notes {
		e.Console.Note("note: %s", note)
	}
	if len(done.Added)+len(done.Replaced)+len(done.Same)+len(done.Conflicts)+len(done.Routers) == 0 {
		e.Console.Note("the client has no servers")
	}
}
