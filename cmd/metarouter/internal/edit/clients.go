package edit

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/clients"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/console"
	"github.com/mcp-metarouter/metarouter/internal/commandline"
)

// A ClientFile names a file of a client with servers: its path, or else the folder of a project. Without both it is the user's.
type ClientFile struct{ File, Project string } // --file, --project

// flags returns the flags of the command line, for a further command about the client.
func (f ClientFile) flags() string {
	switch {
	case f.File != "":
		return " --file " + commandline.Quote(f.File)
	case f.Project != "":
		return " --project " + commandline.Quote(f.Project)
	}
	return ""
}

// Import copies the servers of a client into our configuration, and offers to log in to those that may
// need it.
func Import(ctx context.Context, e *Editor, client string, o ClientFile) error {
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
	if last := sources[len(sources)-1]; o.Project != "" && slices.Contains(last.Projects(), last.Project) {
		e.Console.Note("note: %s goes on starting the servers that %s has for %s; remove them there: claude mcp remove --scope local NAME", c.Title, last.Path, last.Project)
	}
	how := o.flags()
	if c.Rewrites() { // else install prints the lines
		how += " --replace --write"
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

// sources returns the named file of a client, the files of the project, or else the user's.
func (f ClientFile) sources(c clients.Client) ([]clients.Source, error) {
	if f.File != "" {
		path, err := filepath.Abs(f.File)
		return []clients.Source{c.NamedSource(path)}, err
	}
	p, err := clients.ThisSystem()
	switch {
	case err != nil:
		return nil, err
	case f.Project == "":
		return []clients.Source{c.UserSource(c.UserFile(p))}, nil
	}
	folder, err := filepath.Abs(f.Project)
	sources := c.ProjectSources(folder, c.UserFile(p))
	if err == nil && sources == nil {
		err = console.Usage(fmt.Errorf("%s has no servers of single projects; leave out --project", c.Title))
	}
	return sources, err
}

// clientSources reads the client's files.
func clientSources(e *Editor, c clients.Client, o ClientFile) ([]clients.Source, error) {
	sources, err := o.sources(c)
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
	e.noteNames("new", done.Added, "")
	e.noteNames("in your configuration already", done.Same, "")
	e.noteNames("not imported, because your configuration has a different server of this name (to take the client's, remove yours first)", done.Conflicts, "")
	e.noteNames("left out, because they start metarouter itself", done.Routers, "")
	e.noteNames(mayNeedLogin, done.Login, "")
	for _, note := range done.Notes {
		e.Console.Note("note: %s", note)
	}
	if len(done.Added)+len(done.Same)+len(done.Conflicts)+len(done.Routers) == 0 {
		e.Console.Note("the client has no servers")
	}
}
