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

// A Place is an entry of a client that shows one server of ours as itself.
type Place struct {
	Name, Server string
	theirs       bool // it takes the place of an entry of the client's own
}

// Places returns the entries that show each of the servers. A server that the client has in entries of its own, or of ours, keeps
// the names that it has there; one whose name the client has for another server has none.
func Places(servers []string, others []Other) (places []Place) {
	for _, server := range servers {
		for _, o := range others {
			if o.Goes() && (o.Only == server || o.Ours == server) {
				places = append(places, Place{o.Name, server, o.Only == ""})
			}
		}
		if !slices.ContainsFunc(places, func(p Place) bool { return p.Server == server }) && !slices.ContainsFunc(others, func(o Other) bool { return o.Name == server && !o.Stale }) {
			places = append(places, Place{Name: server, Server: server})
		}
	}
	return places
}

// InPlace writes the entries at the places into a client's file, and takes the stale ones and our entry for all servers out of it.
func InPlace(c Client, s Source, e RouterEntry, places []Place, stale []string) (data []byte, err error) {
	if s.Data, err = without(c, s, append(stale, EntryName)); err != nil {
		return nil, err
	}
	for _, p := range places {
		e.Only = p.Server
		if s.Data, err = putEntry(c, s, p.Name, e, p.theirs); err != nil {
			return nil, err
		}
	}
	return s.Data, nil
}

// HasURL reports whether the client reaches a router by a URL, which may be on another machine: the entry of our name has one.
func HasURL(c Client, s Source) bool {
	d, v, err := serversOf(c, s)
	m := member(v, EntryName)
	return err == nil && m != nil && serverOf(c, d, s, EntryName, m.Value).URL != ""
}

// A Record is what [Undo] needs to go back from a client's file with entries of ours. The zero value is for a file without them.
type Record struct {
	Missing       bool             // there was no file
	Depth         int              // how many keys lead to the value that Before and After have; 0 is the whole file
	Before, After string           // its text before and after; "" if it was not there
	Entries       map[string]Entry // those that changed, by name
}

// An Entry is an entry of a client's file that changed.
type Entry struct {
	Before string // its text, "" if it was not there
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
	d, old, err := serversOf(c, s)
	if err != nil {
		return was, err
	}
	next, v, err := serversOf(c, now)
	if err != nil {
		return was, err
	}
	r := Record{Missing: missing || was.Missing && len(base) == 0, Entries: make(map[string]Entry)}
	for _, i := range items(old) {
		if m := member(v, i.key); m == nil || written(&m.Value) != written(i.value) {
			r.Entries[i.key] = Entry{Before: written(i.value)}
		}
	}
	for _, i := range items(v) {
		if member(old, i.key) == nil {
			r.Entries[i.key] = Entry{}
		}
	}
	for name, e := range left {
		if _, again := r.Entries[name]; !again {
			r.Entries[name] = e
		}
	}
	keys := keysIn(c, d, s.keys)
	for r.Depth = 1; r.Depth < len(keys) && object(d.at(keys[:r.Depth]...)) != nil; r.Depth++ {
	}
	r.Before, r.After = written(d.at(keys[:r.Depth]...)), written(next.at(keys[:r.Depth]...))
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
	if err != nil || len(was.Entries) == 0 {
		return s.Data, nil, err
	}
	keys := keysIn(c, d, s.keys)
	depth := min(was.Depth, len(keys))
	switch at := d.at(keys[:depth]...); {
	case was.After == "": // no more than entries
	case depth == 0 && string(s.Data) == was.After:
		return []byte(was.Before), nil, nil
	case depth > 0 && written(at) == was.After && was.Before == "":
		return cut(d, keys[:depth]), nil, nil
	case depth > 0 && written(at) == was.After:
		at.Value = hujson.Literal(was.Before)
		return d.bytes(), nil, nil
	}
	left = make(map[string]Entry)
	var added []string
	var lost fields
	edited := false
	for _, name := range slices.Sorted(maps.Keys(was.Entries)) {
		e, m := was.Entries[name], member(v, name)
		switch {
		case m == nil && e.Before != "":
			lost = append(lost, field{name, excerpt{e.Before, ""}})
		case m == nil || equal(m.Value, e.Before):
		case !serverOf(c, d, s, name, m.Value).Self:
			if e.Before != "" {
				left[name] = e
			}
		case e.Before == "":
			added = append(added, name)
		default:
			m.Value.Value, edited = hujson.Literal(e.Before), true
		}
	}
	if edited {
		s.Data = d.bytes()
	}
	if s.Data, err = without(c, s, added); err != nil {
		return s.Data, left, err
	}
	if d, v, err = serversOf(c, s); err == nil && lost != nil {
		err = d.addServers(keysIn(c, d, s.keys), lost...)
		s.Data = d.bytes()
	} else if err == nil && v != nil && len(items(v)) == 0 && strings.TrimSpace(was.Before) == "" {
		s.Data = cut(d, keys[:max(depth, 1)])
		if d, err = open(s.Path, s.Data); err == nil && depth == 0 && len(items(&d.root)) == 0 {
			s.Data = []byte(was.Before)
		}
	}
	return s.Data, left, err
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
