package edit

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/clients"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/console"
	"github.com/mcp-metarouter/metarouter/internal/commandline"
)

// ImportOptions are the flags of import.
type ImportOptions struct{ File, Project string }

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
	own, err := readOurs(paths)
	if err != nil {
		return err
	}
	target, err := clients.Read(paths[len(paths)-1])
	if err != nil {
		return err
	}
	done, err := clients.Import(sources, target.Path, target.Data, own)
	if err != nil {
		return err
	}
	noteImported(e, done)
	keep := fs.ModePerm
	if done.Secrets {
		keep = 0o600
	}
	used, err := e.apply(file{File: target, text: done.Data, keep: keep})
	if err != nil || !e.Write {
		return err
	}
	if err := remember(target.Path, done.Hashes); err != nil || !used {
		return err
	}
	if err := e.Offer(ctx, paths, done.Login); err != nil {
		return err
	}
	how := "" // install prints the lines
	if c.Rewrites() {
		how = " --replace --write"
	}
	switch last := sources[len(sources)-1]; {
	case o.Project != "":
		how = " --project " + commandline.Quote(o.Project) + how
		if slices.Contains(last.Projects(), last.Project) {
			e.Console.Note("note: %s goes on starting the servers that %s has for %s; remove them there: claude mcp remove --scope local NAME", c.Title, last.Path, last.Project)
		}
	case o.File != "":
		how = " --file " + commandline.Quote(o.File) + how
	}
	e.Console.Note("next: metarouter doctor, then metarouter install %s%s", c.Name, how)
	return nil
}

// remember notes which of the clients' entries were imported into the file at path.
func remember(path string, hashes map[string]string) error {
	if len(hashes) == 0 {
		return nil
	}
	return editStored(importedFile, func(all map[string]map[string]string) {
		if all[path] == nil {
			all[path] = hashes
		}
		maps.Copy(all[path], hashes)
	})
}

// sourcesOf returns the named file of a client, the files of a project, or else the user's.
func sourcesOf(c clients.Client, file, project string) ([]clients.Source, error) {
	if file != "" {
		path, err := filepath.Abs(file)
		return []clients.Source{c.NamedSource(path)}, err
	}
	p, err := clients.ThisSystem()
	switch {
	case err != nil:
		return nil, err
	case project == "":
		return []clients.Source{c.UserSource(c.UserFile(p))}, nil
	}
	folder, err := filepath.Abs(project)
	sources := c.ProjectSources(folder, c.UserFile(p))
	if err == nil && sources == nil {
		err = console.Usage(fmt.Errorf("%s has no servers of single projects; leave out --project", c.Title))
	}
	return sources, err
}

// clientSources reads the client's files.
func clientSources(e *Editor, c clients.Client, o ImportOptions) ([]clients.Source, error) {
	sources, err := sourcesOf(c, o.File, o.Project)
	if err != nil {
		return nil, err
	}
	there, err := clients.Existing(sources)
	if err != nil {
		return nil, err
	}
	if folders := there[0].Projects(); o.Project == "" && len(folders) > 0 {
		e.Console.Note("note: %s has further servers for single projects; for them, add --project %q", c.Title, folders[0])
		for _, folder := range folders[1:] {
			e.Console.Note("  or --project %q", folder)
		}
	}
	return there, nil
}

// noteImported says which of the client's servers were added and left out.
func noteImported(e *Editor, done clients.Imported) {
	say := func(what string, names []string) {
		if len(names) > 0 {
			e.Console.Note("%s: %s", what, strings.Join(names, ", "))
		}
	}
	say("new", done.Added)
	say("in your configuration already", done.Same)
	say("not imported, because your configuration has a different server of this name (to take the client's, remove yours first)", done.Conflicts)
	say("left out, because they start metarouter itself", done.Routers)
	e.noteLogin(done.Login)
	for _, note := range done.Notes {
		e.Console.Note("note: %s", note)
	}
	if len(done.Added)+len(done.Same)+len(done.Conflicts)+len(done.Routers) == 0 {
		e.Console.Note("the client has no servers")
	}
}
