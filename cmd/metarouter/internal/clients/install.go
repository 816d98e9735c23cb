package clients

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/tailscale/hujson"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/jsonc"
)

// A RouterEntry is our entry in a client's file: it starts metarouter with these files.
type RouterEntry struct {
	Command string   // absolute path of the program, or a command that starts it
	Before  []string // arguments of Command, before the arguments of the program
	Configs []string // absolute paths
	Data    *string  // path of the data folder; nil is the default

	// Variables are the environment variables that our servers need, for clients that do
	// not pass all of theirs on.
	Variables []string

	Only   string // the server that the entry shows as itself; "" for all servers
	Chosen bool   // the configuration names a mode, so that the entry names none
	mode   []string
}

// arguments returns the arguments of the entry. It keeps further arguments that an
// earlier entry of ours had after "serve", the mode too.
func (e RouterEntry) arguments(earlier []string) []string {
	args := append(slices.Clone(e.Before), "serve")
	for _, path := range e.Configs {
		args = append(args, "--config", path)
	}
	if e.Data != nil {
		args = append(args, "--data", *e.Data)
	}
	switch {
	case e.Only != "":
		args = append(args, "--only", e.Only)
	case !slices.Contains(earlier, "--mode"):
		args = append(args, e.mode...)
	}
	for i := slices.Index(earlier, "serve") + 1; 0 < i && i < len(earlier); i++ {
		name, _, whole := strings.Cut(earlier[i], "=")
		if name == "--config" || name == "--only" && e.Only != "" || name == "--data" && e.Data != nil {
			if !whole {
				i++
			}
			continue
		}
		args = append(args, earlier[i])
	}
	return args
}

// IsOwn reports whether path is a file of our own configuration. An entry in it would make
// a router start itself.
func (e RouterEntry) IsOwn(path string) bool {
	theirs, _ := os.Stat(path)
	return slices.ContainsFunc(e.Configs, func(own string) bool {
		is, _ := os.Stat(own)
		return own == path || os.SameFile(is, theirs)
	})
}

// elsewhere lists the keys of an entry for a server on the network, and starting those of any entry that say how its server starts.
var (
	elsewhere = []string{"url", "serverUrl", "httpUrl", "headers"}
	starting  = append(slices.Clone(compared), "environment", "envFile", "http_headers", "oauth", "auth", "authProviderType", "source")
)

// Install puts our entries at the places of a client's file, or updates them, and takes the others of the names in gone out. It returns the
// data unchanged if all is up to date. [Lines] is for clients that are not rewritten. An entry of our name that starts another
// program is an error: it is not ours, and nor are the secrets in its env.
func Install(s Source, e RouterEntry, places []Place, gone []string) ([]byte, error) {
	f, err := s.open()
	if err != nil {
		return nil, err
	}
	for _, p := range places {
		e.Only = p.Server
		if err := f.putEntry(p, e); err != nil {
			return nil, err
		}
	}
	f.remove(f.servers, func(key string) bool {
		return slices.Contains(gone, key) && !slices.ContainsFunc(places, func(p Place) bool { return p.Name == key })
	})
	return f.bytes(), nil
}

// putEntry adds our entry at a place, or updates it. Of an entry of the client's own there stay the keys that say nothing of how the server
// starts.
func (f *clientFile) putEntry(p Place, e RouterEntry) error {
	fresh := f.Client.written(e, nil)
	m := member(f.at(f.keys...), p.Name)
	switch {
	case m == nil:
		return f.putServers(f.keys, field{p.Name, fresh})
	case p.theirs || object(&m.Value) == nil:
		for _, i := range items(&m.Value) {
			if !slices.Contains(starting, i.key) {
				fresh = append(fresh, field{i.key, i.value.Value})
			}
		}
		f.set(m, fresh)
		return nil
	}
	switch theirs, err := (clientEntry{p.Name, f, &m.Value}).convert(f.Path); {
	case err != nil:
		return err
	case theirs.server.Transport == config.Stdio && !theirs.server.Self:
		return fmt.Errorf("%s has an entry %q that starts another program; rename or remove it", f.Path, EntryName)
	}
	f.remove(&m.Value, func(key string) bool { return slices.Contains(elsewhere, key) })
	f.update(m, f.Client, e)
	return nil
}

// update brings an entry of ours that starts metarouter up to date.
func (d *document) update(m *hujson.ObjectMember, c Client, e RouterEntry) {
	var missing []field
	var earlier []string
	for _, key := range []string{"command", "args"} {
		if old := member(&m.Value, key); old != nil {
			words, _ := jsonc.Strings(old.Value)
			earlier = append(earlier, words...)
		}
	}
	fresh := c.written(e, earlier)
	for _, key := range []string{"type", "transport", "transportType"} { // keys of a server on the network
		if member(&m.Value, key) != nil && (key != "type" || !c.typed && c.entry == nil) {
			fresh = append(fresh, field{key, "stdio"})
		}
	}
	for _, f := range fresh {
		old := member(&m.Value, f.key)
		switch {
		case old == nil:
			missing = append(missing, f)
		case f.key == "env" && object(&old.Value) != nil:
			d.add(&old.Value, slices.DeleteFunc(passed(e.Variables), func(f field) bool { return member(&old.Value, f.key) != nil })...)
		case !equal(old.Value, d.write(f.value)):
			d.set(old, f.value)
		}
	}
	d.add(&m.Value, missing...)
}

// written returns the fields of our entry. earlier are the arguments of the entry that it
// replaces.
func (c Client) written(e RouterEntry, earlier []string) (all fields) {
	if !e.Chosen {
		e.mode = c.mode
	}
	if c.entry != nil {
		return c.entry(e, earlier)
	}
	if c.typed {
		all = append(all, field{"type", "stdio"})
	}
	all = append(all, field{"command", e.Command}, field{"args", e.arguments(earlier)})
	if c.withholds && len(e.Variables) > 0 {
		all = append(all, field{"env", passed(e.Variables)})
	}
	return all
}

// passed returns the members of env that pass variables on.
func passed(variables []string) (all fields) {
	for _, name := range variables {
		all = append(all, field{name, "${" + name + "}"})
	}
	return all
}

// equal reports whether v is equal to a value in JSON.
func equal(v hujson.Value, said string) bool {
	other, err := hujson.Parse([]byte(said))
	return err == nil && bytes.Equal(jsonc.Compact(v), jsonc.Compact(other))
}
