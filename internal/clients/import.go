package clients

import (
	"fmt"
	"path/filepath"

	"github.com/mcp-metarouter/metarouter/config"
)

// A Choice is what becomes of an entry whose name ours has for another server.
type Choice int

const (
	KeepOurs Choice = iota
	TakeTheirs
	TakeBoth // theirs under a name of its own
)

// An Imported is our file with a client's servers, and what was done with each.
type Imported struct {
	Data      []byte
	Added     []string
	Replaced  []string
	Same      []string // were there already
	Conflicts []string // ours is another, and stays
	Routers   []string // are metarouter itself
	Notes     []string
	Secrets   bool // some of what came in may be one
}

// Import puts the servers of the sources into our file that is at path and says data,
// which may be nothing yet.
func Import(c Client, sources []Source, path string, data []byte, ours Ours, choice Choice) (Imported, error) {
	var done Imported
	all, notes, err := c.find(sources)
	if err != nil {
		return done, err
	}
	done.Notes = notes
	d, err := open(path, data)
	if err != nil {
		return done, err
	}
	key, err := config.ServersKey(path, d.data)
	if err != nil {
		return done, err
	}
	var keys []string
	if key != "" {
		keys = []string{key}
	}
	// Ours may have comments, but not where Claude Code reads it too.
	plain := d.standard() && filepath.Base(path) == ".mcp.json"
	var added []field
	names := make(map[string]bool)
	started := false // a program of theirs
	for _, f := range all {
		theirs, err := c.convert(f, path)
		if err != nil {
			done.Notes = append(done.Notes, err.Error()+"; it is left out")
			continue
		}
		if plain {
			theirs.plain()
		}
		same, isSame := ours.same(theirs.entry)
		write := field{theirs.name, raw(theirs.text, theirs.unit)}
		switch {
		case theirs.entry.Self, f.name == EntryName && theirs.entry.URL != "":
			done.Routers = append(done.Routers, theirs.name)
			continue
		case names[theirs.name]:
			done.Notes = append(done.Notes, fmt.Sprintf("%q is left out: another one is called so already", theirs.name))
			continue
		case isSame && same.Name == theirs.name:
			done.Same = append(done.Same, theirs.name)
			continue
		case isSame:
			done.Same = append(done.Same, fmt.Sprintf("%s (as %s)", theirs.name, same.Name))
			continue
		case !ours.has(theirs.name):
			added = append(added, write)
			done.Added = append(done.Added, theirs.name)
		case choice == TakeTheirs:
			if m := d.at(append(keys, theirs.name)...); m != nil {
				d.set(member(d.at(keys...), theirs.name), write.value)
			} else {
				added = append(added, write)
			}
			done.Replaced = append(done.Replaced, theirs.name)
		case choice == TakeBoth:
			base := theirs.name
			for i := 2; ours.has(write.key) || names[write.key]; i++ {
				write.key = fmt.Sprintf("%s-%d", base, i)
			}
			added = append(added, write)
			done.Added = append(done.Added, write.key)
		default:
			done.Conflicts = append(done.Conflicts, theirs.name)
			continue
		}
		names[write.key] = true
		started = started || theirs.entry.Transport == config.Stdio
		done.Notes = append(done.Notes, theirs.notes...)
		done.Secrets = done.Secrets || hides(path, []byte(theirs.text))
	}
	if started && c.inherits {
		done.Notes = append(done.Notes, fmt.Sprintf("servers of %s have all of its environment; here they have what their entries name in env or inheritEnv, and a safe few such as PATH", c.Title))
	}
	switch {
	case len(added) > 0 && len(data) == 0:
		d.add(&d.root, field{"$schema", text(config.SchemaURL)}, field{keys[0], fields(added...)})
	case len(added) > 0:
		err = d.addServers(keys, added...)
	}
	if len(d.splices) == 0 {
		done.Data = data
		return done, err
	}
	done.Data = d.bytes()
	return done, err
}
