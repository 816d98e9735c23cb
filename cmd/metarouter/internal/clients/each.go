package clients

import (
	"maps"
	"slices"
	"strings"

	"github.com/tailscale/hujson"

	"github.com/mcp-metarouter/metarouter/config"
)

// onlyOf returns the server of ours that an entry shows as itself; "" for another entry, and for one
// of several servers.
func onlyOf(s config.Server) string {
	if only := after("--only", s.Args); s.Self && only != nil && !strings.Contains(only[0], ",") {
		return only[0]
	}
	return ""
}

// A Place is an entry of ours in a client's file.
type Place struct {
	Name   string
	Server string // of ours, which the entry shows as itself; "" for all servers
	theirs bool   // it takes the place of an entry of the client's own
}

// Places returns the entries that show each of the servers. A server that the client has in entries of its own, or of ours, keeps
// the names that it has there; one whose name the client has for another server has none.
func Places(servers []string, others []Other) (places []Place) {
	for _, server := range servers {
		for _, o := range others {
			if o.goes() && (o.Only == server || o.Ours == server) {
				places = append(places, Place{o.Name, server, o.Only == ""})
			}
		}
		if !slices.ContainsFunc(places, func(p Place) bool { return p.Server == server }) && !slices.ContainsFunc(others, func(o Other) bool { return o.Name == server && !o.Stale }) {
			places = append(places, Place{Name: server, Server: server})
		}
	}
	return places
}

// HasURL reports whether the client reaches a router by a URL, which may be on another machine: the entry of our name has one.
func HasURL(c Client, s Source) bool {
	d, v, err := serversOf(c, s)
	m := member(v, EntryName)
	return err == nil && m != nil && serverOf(c, d, s, EntryName, m.Value).URL != ""
}

// A Record is what [Undo] needs to go back from a client's file with entries of ours. The zero value is for a file without them.
type Record struct {
	Missing       bool // there was no file
	Depth         int  // of Before and After: 0 for whole files, else how many keys lead to the object of the servers
	Before, After string
	Entries       map[string]Entry // that could not come back earlier, by name; in records of earlier builds, all that changed
}

// An Entry is an entry of a client's file.
type Entry struct {
	Before string // its text, "" if it was not there
}

// Empty reports whether there is nothing to go back to.
func (r Record) Empty() bool { return r.Before == r.After && len(r.Entries) == 0 }

// changed returns the entries before that the record changed. left are the others that could not come back earlier.
func (r Record) changed(c Client, s Source) (all, left map[string]Entry) {
	entries := func(servers string) map[string]Entry {
		all, root := make(map[string]Entry), hujson.Value{}
		v := &root
		if r.Depth == 0 {
			_, v, _ = serversOf(c, Source{Path: s.Path, Data: []byte(servers), keys: s.keys})
		} else {
			root, _ = hujson.Parse([]byte(servers))
		}
		for _, i := range items(v) {
			all[i.key] = Entry{written(i.value)}
		}
		return all
	}
	all, left = entries(r.Before), make(map[string]Entry)
	for name, after := range entries(r.After) {
		if before := all[name]; before == after {
			delete(all, name)
		} else {
			all[name] = before
		}
	}
	for name, e := range r.Entries {
		if _, again := all[name]; !again {
			left[name] = e
		}
	}
	return all, left
}

// Replaced returns the record of a change of a client's file from the content of s to data. was is the record of earlier changes. If
// missing is set, there was no file.
func Replaced(c Client, s Source, missing bool, data []byte, was Record) (Record, error) {
	now := Source{Path: s.Path, Data: data, keys: s.keys}
	base, left, err := Undo(c, s, was)
	if err != nil {
		return was, err
	}
	s.Data = base
	_, old, err := serversOf(c, s)
	if err != nil {
		return was, err
	}
	d, v, err := serversOf(c, now)
	if err != nil {
		return was, err
	}
	r := Record{missing || was.Missing && len(base) == 0, len(keysIn(c, d, s.keys)), written(old), written(v), left}
	if back, _, err := Undo(c, now, r); err != nil || string(back) != string(base) {
		r.Depth, r.Before, r.After = 0, string(base), string(data)
	}
	return r, nil
}

// Undo goes back to the content that a client's file had before the changes of was, byte for byte, if no other program has changed an
// entry since. Else the client's own entries come back as they were, and those that were added go. left are entries that can't come
// back, since the file has others of their names.
func Undo(c Client, s Source, was Record) (data []byte, left map[string]Entry, err error) {
	d, v, err := serversOf(c, s)
	if err != nil || was.Empty() {
		return s.Data, nil, err
	}
	changed, left := was.changed(c, s)
	switch {
	case was.Depth == 0 && string(s.Data) == was.After:
		return []byte(was.Before), left, nil
	case was.Depth > 0 && written(v) == was.After && was.Before != "":
		v.Value = hujson.Literal(was.Before)
		return d.bytes(), left, nil
	}
	maps.Copy(changed, left)
	clear(left)
	keys := keysIn(c, d, s.keys)
	var added []string
	var lost fields
	for _, name := range slices.Sorted(maps.Keys(changed)) {
		before, m := changed[name].Before, member(v, name)
		switch {
		case m == nil && before != "":
			lost = append(lost, field{name, hujson.Literal(before)})
		case m == nil || equal(m.Value, before):
		case !serverOf(c, d, s, name, m.Value).Self:
			if before != "" {
				left[name] = Entry{before}
			}
		case before == "":
			added = append(added, name)
		default:
			m.Value.Value = hujson.Literal(before)
		}
	}
	d.remove(v, func(key string) bool { return slices.Contains(added, key) })
	switch {
	case lost != nil:
		err = d.addServers(keys, lost...)
	case v == nil:
		return s.Data, left, nil
	case len(items(v)) == 0 && strings.TrimSpace(was.Before) == "": // the file had no servers
		if s.Data = cut(d, keys); len(items(&d.root)) == 0 && was.Depth == 0 {
			s.Data = []byte(was.Before)
		}
		return s.Data, left, nil
	}
	return d.bytes(), left, err
}

// cut returns the document without the member to which keys lead.
func cut(d *document, keys []string) []byte {
	last := len(keys) - 1
	d.remove(d.at(keys[:last]...), func(key string) bool { return key == keys[last] })
	return d.bytes()
}

// serverOf returns the server of an entry of a client's file; without anything if the entry can't be read.
func serverOf(c Client, d *document, s Source, name string, v hujson.Value) config.Server {
	said, err := c.convert(clientEntry{name, s, d, hujson.ObjectMember{Name: hujson.Value{StartOffset: v.StartOffset}, Value: v}}, s.Path)
	if err != nil {
		return config.Server{}
	}
	return said.server
}

// serversOf opens a client's file. The object of its servers is nil if the file lacks it.
func serversOf(c Client, s Source) (*document, *hujson.Value, error) {
	d, err := openSource(c, s)
	if err != nil {
		return nil, nil, err
	}
	v, err := d.servers(keysIn(c, d, s.keys))
	return d, v, err
}
