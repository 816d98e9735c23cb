package clients

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tailscale/hujson"

	"github.com/mcp-metarouter/metarouter/config"
)

// UserFile returns the user's file of the client: the first that exists, else the first whose folder exists, since a
// client also reads a file that is yet to be written, else the usual one.
func (c Client) UserFile(p System) string {
	files := c.Files(p)
	i := slices.IndexFunc(files, Exists)
	if i < 0 {
		i = slices.IndexFunc(files, func(file string) bool { return Exists(filepath.Dir(file)) })
	}
	return files[max(i, 0)]
}

// A Source is a file in which a client keeps servers.
type Source struct {
	Client  Client
	Path    string
	Data    []byte
	Project string // the project's folder that the servers belong to, "" if they are the user's

	keys []string // from the root to the servers
}

// UserSource returns the source of the user's file. Its Data is not read yet.
func (c Client) UserSource(file string) Source { return Source{Client: c, Path: file, keys: c.keys} }

// ProjectSources returns the files of a project's servers; nil if the client has no servers of
// projects.
func (c Client) ProjectSources(folder, userFile string) (all []Source) {
	for _, file := range c.projects {
		all = append(all, Source{Client: c, Path: filepath.Join(folder, file), keys: c.keys, Project: folder})
	}
	if c.Name == "claude-code" {
		for _, spelling := range slices.Compact([]string{folder, filepath.ToSlash(folder)}) {
			all = append(all, Source{Client: c, Path: userFile, keys: []string{"projects", spelling, "mcpServers"}, Project: folder})
		}
	}
	return all
}

// NamedSource returns the source of a client's file that the user named.
func (c Client) NamedSource(path string) Source {
	s := c.UserSource(path)
	if folder := filepath.Base(filepath.Dir(path)); folder == ".vscode" || folder == ".cursor" {
		s.Project = filepath.Dir(filepath.Dir(path))
	} else if filepath.Base(path) == ".mcp.json" {
		s.Project = filepath.Dir(path)
	}
	return s
}

// Projects returns the folders of the projects that have servers in the user's file.
func (s Source) Projects() (folders []string) {
	d, err := open(s.Path, s.Data)
	if s.Client.Name != "claude-code" || err != nil {
		return nil
	}
	for _, project := range items(d.at("projects")) {
		if servers := member(project.value, "mcpServers"); servers != nil && len(items(&servers.Value)) > 0 {
			folders = append(folders, project.key)
		}
	}
	return folders
}

// read returns the source with the content of its file, if that can be read.
func (s Source) read() Source {
	if f, err := Read(s.Path); err == nil {
		s.Data = f.Data
	}
	return s
}

// Existing returns the sources with files that exist, with their content. It is an error if no file exists.
func Existing(sources []Source) (there []Source, err error) {
	c := sources[0].Client
	if c.format == inYAML {
		return nil, fmt.Errorf("metarouter does not read YAML; add the servers of %s with 'metarouter add'", c.Title)
	}
	var looked []string
	for _, s := range sources {
		f, err := Read(s.Path)
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
	return there, nil
}

// A clientFile is the file of a source, open for edits.
type clientFile struct {
	Source // its keys lead to the servers of this file, and the mode of its client is for this file
	*document
	servers *hujson.Value // the object of the servers, nil if the file lacks it
}

func (s Source) open() (*clientFile, error) {
	d, err := s.parse()
	if err != nil {
		return nil, err
	}
	if deeper := append(slices.Clone(s.keys), s.Client.deeper); s.Client.deeper != "" {
		if v := d.at(deeper...); object(v) != nil && member(v, "type") == nil && !starts(v) {
			s.keys = deeper
		} else {
			s.Client.mode = nil
		}
	}
	f := &clientFile{Source: s, document: d}
	f.servers, err = d.serversAt(s.keys)
	return f, err
}

// A clientEntry is a server in a client's file.
type clientEntry struct {
	name  string
	file  *clientFile
	value *hujson.Value
}

// entry returns the entry of that name. ok is false if the file lacks it.
func (f *clientFile) entry(name string) (e clientEntry, ok bool) {
	m := member(f.servers, name)
	if m == nil {
		return e, false
	}
	return clientEntry{name, f, &m.Value}, true
}

// server returns the server of the entry, without anything if the entry can't be read.
func (e clientEntry) server() config.Server {
	said, _ := e.convert(e.file.Path)
	return said.server
}

// starts reports whether an object says how a server starts or is reached.
func starts(entry *hujson.Value) bool {
	return member(entry, "command") != nil || member(entry, "url") != nil
}
