package clients

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// UsualSource returns the user's file of the client: the first whose folder exists, since a
// client also reads a file that is yet to be written. The notes name other files that the
// user may mean.
func (c Client) UsualSource(p System) (s Source, notes []string) {
	files := c.Files(p)
	file := files[max(slices.IndexFunc(files, func(file string) bool { return FirstExisting(filepath.Dir(file)) != "" }), 0)]
	if there := FirstExisting(files...); there != "" && filepath.Dir(there) == filepath.Dir(file) {
		file = there // of files in one folder
	}
	for _, other := range files {
		if other != file && FirstExisting(other) != "" {
			notes = append(notes, fmt.Sprintf("%s has a file at %s too; name it with --file if you use that one", c.Title, other))
		}
	}
	return c.UserSource(file), notes
}

// UserFile returns the user's file of the client: the first that exists, else the usual one.
func (c Client) UserFile(p System) string {
	files := c.Files(p)
	return cmp.Or(FirstExisting(files...), files[0])
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
