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
func HasURL(s Source) bool {
	f, err := s.open()
	if err != nil {
		return false
	}
	e, ok := f.entry(EntryName)
	return ok && e.server().URL != ""
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

// texts returns the entries in a text of the record, by name.
func (r Record) texts(s Source, text string) map[string]Entry {
	var servers *hujson.Value
	if s.Data = []byte(text); r.Depth > 0 {
		object, _ := hujson.Parse(s.Data)
		servers = &object
	} else if f, err := s.open(); err == nil {
		servers = f.servers
	}
	all := make(map[string]Entry)
	for _, i := range items(servers) {
		all[i.key] = Entry{written(i.value)}
	}
	return all
}

// changed returns the entries before that the record changed. left are the others that could not come back earlier.
func (r Record) changed(s Source) (all, left map[string]Entry) {
	all, left = r.texts(s, r.Before), maps.Clone(r.Entries)
	for name, after := range r.texts(s, r.After) {
		if before := all[name]; before == after {
			delete(all, name)
		} else {
			all[name] = before
		}
	}
	maps.DeleteFunc(left, func(name string, _ Entry) bool {
		_, again := all[name]
		return again
	})
	return all, left
}

// Replaced returns the record of a change of a client's file from the content of s to data. was is the record of earlier changes. If
// missing is set, there was no file.
func Replaced(s Source, missing bool, data []byte, was Record) (Record, error) {
	base, left, err := Undo(s, was)
	if err != nil {
		return was, err
	}
	now := s
	s.Data, now.Data = base, data
	before, err := s.open()
	if err != nil {
		return was, err
	}
	after, err := now.open()
	if err != nil {
		return was, err
	}
	r := Record{missing || was.Missing && len(base) == 0, len(after.keys), written(before.servers), written(after.servers), left}
	if back, _, err := Undo(now, r); err != nil || string(back) != string(base) {
		r.Depth, r.Before, r.After = 0, string(base), string(data)
	}
	return r, nil
}

// Undo goes back to the content that a client's file had before the changes of was, byte for byte, if no other program has changed an
// entry since. Else the client's own entries come back as they were, and those that were added go. left are entries that can't come
// back, since the file has others of their names.
func Undo(s Source, was Record) (data []byte, left map[string]Entry, err error) {
	f, err := s.open()
	if err != nil || was.Empty() {
		return s.Data, nil, err
	}
	changed, left := was.changed(s)
	switch {
	case was.Depth == 0 && string(s.Data) == was.After:
		return []byte(was.Before), left, nil
	case was.Depth > 0 && f.servers != nil && written(f.servers) == was.After && was.Before != "":
		f.servers.Value = hujson.Literal(was.Before)
		return f.bytes(), left, nil
	}
	maps.Copy(changed, left)
	left = make(map[string]Entry)
	var added []string
	var lost fields
	for _, name := range slices.Sorted(maps.Keys(changed)) {
		before := changed[name].Before
		switch e, there := f.entry(name); {
		case !there && before != "":
			lost = append(lost, field{name, hujson.Literal(before)})
		case !there || equal(*e.value, before):
		case !e.server().Self:
			if before != "" {
				left[name] = Entry{before}
			}
		case before == "":
			added = append(added, name)
		default:
			e.value.Value = hujson.Literal(before)
		}
	}
	f.remove(f.servers, func(key string) bool { return slices.Contains(added, key) })
	switch {
	case lost != nil:
		err = f.putServers(f.keys, lost...)
	case f.servers == nil:
		return s.Data, left, nil
	case len(items(f.servers)) == 0 && strings.TrimSpace(was.Before) == "": // the file had no servers
		last := len(f.keys) - 1
		f.remove(f.at(f.keys[:last]...), func(key string) bool { return key == f.keys[last] })
		if len(items(&f.root)) == 0 && was.Depth == 0 {
			return []byte(was.Before), left, nil
		}
	}
	return f.bytes(), left, err
}
