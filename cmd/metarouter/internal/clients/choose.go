package clients

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// UserFile returns the user's file of the client: the first that exists, else the first whose folder exists, since a
// client also reads a file that is yet to be written, else the usual one.
func (c Client) UserFile(p System) string {
	files := c.Files(p)
	for _, file := range files {
		if FirstExisting(file) != "" {
			return file
		}
	}
	for _, file := range files {
		if FirstExisting(filepath.Dir(file)) != "" {
			return file
		}
	}
	return files[0]
}

// IsOwn reports whether path is a file of our own configuration. An entry in it would make
// a router start itself.
func (e RouterEntry) IsOwn(path string) bool {
	theirs, _ := os.Stat(path)
	return slices.ContainsFunc(e.Configs, func(own string) bool {
		is, err := os.Stat(own)
		return own == path || err == nil && os.SameFile(is, theirs)
	})
}

// Existing returns the client's files that exist, with their content. It is an error if there is no
// such file.
func (c Client) Existing(sources []Source) (there []Source, err error) {
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
