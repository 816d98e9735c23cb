package clients

import (
	"maps"
	"slices"

	"github.com/tailscale/hujson"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/lazy"
)

// onlyURL matches the URL by which a client reaches a router: for all servers, or for one.
var onlyURL = lazy.Regexp(`^(https?://[^?#]*/mcp(?:/p/[^/?#]+)?)(?:/s/([^/?#]+))?$`)

// onlyOf returns the server of ours that an entry shows as itself; "" for another entry.
func onlyOf(s config.Server) string {
	if m := onlyURL().FindStringSubmatch(s.URL); m != nil {
		return m[2]
	}
	if i := slices.Index(s.Args, "--only"); s.Self && i >= 0 && i+1 < len(s.Args) {
		return s.Args[i+1]
	}
	return ""
}

// A Place is an entry of a client that shows one server of ours as itself.
type Place struct {
	Name, Server string
	theirs       bool // it takes the place of an entry of the client's own
}

// Places returns the entries that show each of the servers. A server that the client has in entries of its own, or of ours, keeps
// the names that it has there. kept are servers whose name the client has for another server.
func Places(servers []string, others []Other) (places []Place, kept []string) {
	for _, server := range servers {
		for _, o := range others {
			if o.Goes() && (o.Only == server || o.Ours == server) {
				places = append(places, Place{o.Name, server, o.Only == ""})
			}
		}
		switch {
		case slices.ContainsFunc(places, func(p Place) bool { return p.Server == server }):
		case slices.ContainsFunc(others, func(o Other) bool { return o.Name == server }):
			kept = append(kept, server)
		default:
			places = append(places, Place{Name: server, Server: server})
		}
	}
	return places, kept
}

// InPlace writes the entries at the places into a client's file, and takes our entry for all servers out of it. If the client reaches
// the router by a URL, so do the entries.
func InPlace(c Client, s Source, e RouterEntry, places []Place) (data []byte, err error) {
	_, v, err := serversOf(c, s)
	if err != nil {
		return nil, err
	}
	url, whole := reached(v, places)
	for _, p := range places {
		e.Only = p.Server
		var reaches fields
		for _, i := range items(whole) {
			switch {
			case slices.Contains(elsewhere[:3], i.key):
				reaches = append(reaches, field{i.key, url + "/s/" + p.Server})
			case slices.Contains(starting, i.key):
				reaches = append(reaches, field{i.key, i.value.Value})
			}
		}
		if s.Data, err = putEntry(c, s, p.Name, e, reaches, p.theirs || reaches != nil); err != nil {
			return nil, err
		}
	}
	return without(c, s, []string{EntryName})
}

// reached returns the URL by which the client reaches a router, without a server, and the entry that has it; nil without one.
func reached(v *hujson.Value, places []Place) (url string, entry *hujson.Value) {
	for _, i := range items(v) {
		for _, key := range elsewhere[:3] {
			_, said := stringAt(&i.value, key)
			found := onlyURL().FindStringSubmatch(said)
			if found != nil && (i.key == EntryName || slices.ContainsFunc(places, func(p Place) bool { return p.Name == i.key && p.Server == found[2] })) {
				return found[1], &i.value
			}
		}
	}
	return "", nil
}

// The keys of whole objects in what [Replaced] returns. No server has such a name.
const before, after = "\x00before", "\x00after"

// Replaced returns what [Undo] needs to go back from the content data of a client's file to that of s: the texts of the client's own
// entries that data has no more, by name, and "" for those that it has in addition. was is what Replaced returned before; it may be empty.
func Replaced(c Client, s Source, data []byte, was map[string]string) (map[string]string, error) {
	d, old, err := serversOf(c, s)
	if err != nil {
		return nil, err
	}
	next, v, err := serversOf(c, Source{Path: s.Path, Data: data, keys: s.keys})
	if err != nil {
		return nil, err
	}
	all := make(map[string]string)
	for _, i := range items(v) {
		all[i.key] = ""
	}
	maps.Copy(all, was)
	for _, i := range items(old) {
		if text, m := d.text(&i.value), member(v, i.key); m != nil && next.text(&m.Value) == text {
			if _, changed := was[i.key]; !changed {
				delete(all, i.key) // it stays
			}
		} else if i.key == EntryName || !isOurs(c, d, s, i) {
			all[i.key] = text
		}
	}
	if len(was) == 0 {
		all[before] = d.text(old)
	} else if d.text(old) != was[after] {
		delete(all, before) // another program has changed an entry since
	}
	all[after] = next.text(v)
	return all, nil
}

// Undo goes back to what the file was before [Replaced], byte for byte, if no other program has changed an entry since. Else the client's
// own entries come back as they were, and those that were added go.
func Undo(c Client, s Source, was map[string]string) ([]byte, error) {
	d, v, err := serversOf(c, s)
	if err != nil || v == nil {
		return s.Data, err
	}
	if was[before] != "" && d.text(v) == was[after] {
		d.splice(v.StartOffset, v.EndOffset, was[before])
		return d.bytes(), nil
	}
	var added []string
	var lost fields
	for _, name := range slices.Sorted(maps.Keys(was)) {
		text, m := was[name], member(v, name)
		switch {
		case name == before || name == after:
		case m == nil && text != "":
			lost = append(lost, field{name, excerpt{text, ""}})
		case m == nil || !isOurs(c, d, s, item{name, m.Name.StartOffset, m.Value}):
		case text == "":
			added = append(added, name)
		default:
			d.splice(m.Value.StartOffset, m.Value.EndOffset, text)
		}
	}
	s.Data = d.bytes()
	if s.Data, err = without(c, s, added); err != nil || lost == nil {
		return s.Data, err
	}
	if d, err = open(s.Path, s.Data); err == nil {
		err = d.addServers(keysIn(c, d, s.keys), lost...)
	}
	return d.bytes(), err
}

// isOurs reports whether an entry of a client's file reaches metarouter.
func isOurs(c Client, d *document, s Source, i item) bool {
	said, err := c.convert(clientEntry{i.key, s, d, hujson.ObjectMember{Name: hujson.Value{StartOffset: i.from}, Value: i.value}}, s.Path)
	return err == nil && (said.server.Self || onlyURL().MatchString(said.server.URL))
}

// serversOf opens a client's file. The object of its servers is nil if there is none.
func serversOf(c Client, s Source) (*document, *hujson.Value, error) {
	d, err := openSource(c, s)
	if err != nil {
		return nil, nil, err
	}
	v, err := d.servers(keysIn(c, d, s.keys))
	return d, v, err
}

// text returns a value as it is written, "" for nil.
func (d *document) text(v *hujson.Value) string {
	if v == nil {
		return ""
	}
	return string(d.data[v.StartOffset:v.EndOffset])
}
