package clients

import (
	"bytes"
	"fmt"
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

// elsewhere lists the keys of an entry for a server on the network, and starting those of any entry that say how its server starts.
var (
	elsewhere = []string{"url", "serverUrl", "httpUrl", "headers"}
	starting  = append(slices.Clone(compared), "environment", "envFile", "http_headers", "oauth", "auth", "authProviderType", "source")
)

// Install puts our entries at the places of a client's file, or updates them, and takes the others of the names in gone out. It returns the
// data unchanged if all is up to date. [Lines] is for clients that are not rewritten. An entry of our name that starts another
// program is an error: it is not ours, and nor are the secrets in its env.
func Install(c Client, s Source, e RouterEntry, places []Place, gone []string) ([]byte, error) {
	d, v, err := serversOf(c, s)
	if err != nil {
		return nil, err
	}
	s.keys = keysIn(c, d, s.keys)
	c = inFile(c, s.keys)
	for _, p := range places {
		e.Only = p.Server
		if err := d.putEntry(c, s, p, e); err != nil {
			return nil, err
		}
	}
	d.remove(v, func(key string) bool {
		return slices.Contains(gone, key) && !slices.ContainsFunc(places, func(p Place) bool { return p.Name == key })
	})
	return d.bytes(), nil
}

// putEntry adds our entry at a place, or updates it. Of an entry of the client's own there stay the keys that say nothing of how the server
// starts.
func (d *document) putEntry(c Client, s Source, p Place, e RouterEntry) error {
	fresh := c.written(e, nil)
	m := member(d.at(s.keys...), p.Name)
	switch {
	case m == nil:
		return d.addServers(s.keys, field{p.Name, fresh})
	case p.theirs || object(&m.Value) == nil:
		for _, i := range items(&m.Value) {
			if !slices.Contains(starting, i.key) {
				fresh = append(fresh, field{i.key, i.value.Value})
			}
		}
		d.set(m, fresh)
		return nil
	}
	if err := notOurs(c, s, d, *m); err != nil {
		return err
	}
	d.remove(&m.Value, func(key string) bool { return slices.Contains(elsewhere, key) })
	d.update(m, c, e)
	return nil
}

// update brings an entry of ours that starts metarouter up to date.
func (d *document) update(m *hujson.ObjectMember, c Client, e RouterEntry) {
	var missing []field
	fresh := c.written(e, slices.Concat(stringsOf(member(&m.Value, "command")), stringsOf(member(&m.Value, "args"))))
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

// notOurs returns an error if the entry of our name starts another program.
func notOurs(c Client, s Source, d *document, m hujson.ObjectMember) error {
	theirs, err := c.convert(clientEntry{EntryName, s, d, m}, s.Path)
	if err == nil && theirs.server.Transport == config.Stdio && !theirs.server.Self {
		return fmt.Errorf("%s has an entry %q that starts another program; rename or remove it", s.Path, EntryName)
	}
	return err
}

// keysIn returns the keys that lead to the servers of a document: opencode 2 has them one object
// deeper than opencode 1.
func keysIn(c Client, d *document, keys []string) []string {
	if c.Name != "opencode" || len(keys) != 1 {
		return keys
	}
	deeper := append(slices.Clone(keys), "servers")
	if v := d.at(deeper...); object(v) != nil && member(v, "type") == nil && member(v, "command") == nil && member(v, "url") == nil {
		return deeper
	}
	return keys
}

// inFile returns the client of a file with its servers at these keys: opencode 1 puts all tools before the model.
func inFile(c Client, keys []string) Client {
	if c.Name == "opencode" && len(keys) == 1 {
		c.mode = nil
	}
	return c
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

// stringsOf returns the elements of an array of strings, or nil for another value.
func stringsOf(m *hujson.ObjectMember) (all []string) {
	if m == nil || m.Value.Value.Kind() != '[' {
		return nil
	}
	for _, i := range items(&m.Value) {
		s, ok := jsonc.Text(*i.value)
		if !ok {
			return nil
		}
		all = append(all, s)
	}
	return all
}

// equal reports whether v is equal to a value in JSON.
func equal(v hujson.Value, said string) bool {
	other, err := hujson.Parse([]byte(said))
	return err == nil && bytes.Equal(jsonc.Compact(v), jsonc.Compact(other))
}
