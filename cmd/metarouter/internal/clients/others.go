package clients

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/tailscale/hujson"

	"github.com/mcp-metarouter/metarouter/config"
)

// An Other is a server of the client's own.
type Other struct {
	Name    string
	Ours    string   // the name of our entry that starts the same server, or that it was imported as; "" without one
	Stays   string   // why our entry can't take its place; "" if it can, or without one
	Differs []string // the keys in which ours has changed since the entry was imported
	Router  bool     // it starts metarouter too
	Only    string   // it shows this server of ours as itself
	Stale   bool     // we wrote it for a server that is ours no more
}

// Goes reports whether the client needs no entry for the server: metarouter has it, or it was one of ours.
func (o Other) Goes() bool { return o.Only != "" || o.Stale || o.Ours != "" && o.Stays == "" }

// Others returns the servers in a client's file other than our entry. path is the path of
// our file.
func Others(c Client, s Source, path string, ours Ours) ([]Other, error) {
	all, _, err := c.find([]Source{s})
	if err != nil {
		return nil, err
	}
	routers := ours.routers()
	if i := slices.IndexFunc(all, func(f clientEntry) bool { return f.name == EntryName }); i >= 0 {
		theirs, _ := c.convert(all[i], path)
		routers = append(routers, routerAt(theirs.server.URL))
	}
	var others []Other
	for _, f := range all {
		if f.name == EntryName {
			continue
		}
		theirs, err := c.convert(f, path)
		s := theirs.server
		o := Other{Name: f.name, Router: s.Self}
		switch only := onlyOf(s); {
		case only == "":
		case ours.has(only):
			if s.Self || slices.Contains(routers, routerAt(s.URL)) { // else the URL of another server looks alike
				o.Only = only
			}
		default:
			e, written := ours.Record.Entries[f.name]
			o.Stale = written && isOurs(s, e) && (!s.Self || slices.Contains(after("--config", s.Args), path))
		}
		if err == nil && !o.Router && o.Only == "" && !o.Stale {
			o.compare(ours, theirs)
		}
		others = append(others, o)
	}
	return others, nil
}

// local replaces the addresses of this machine in a URL.
var local = strings.NewReplacer("127.0.0.1", "localhost", "[::1]", "localhost", "//0.0.0.0", "//localhost", "//[::]", "//localhost", "//:", "//localhost:")

// routerAt returns the part of the URL of an entry that says where its router is.
func routerAt(url string) string {
	at, _, _ := strings.Cut(strings.ToLower(url), "/mcp")
	return local.Replace(at)
}

// routers returns where clients may reach our router.
func (o Ours) routers() []string {
	h := o.Config.Router.HTTP
	addr := cmp.Or(h.Addr, "127.0.0.1:8787")
	all := []string{routerAt("http://" + addr), routerAt("https://" + addr), routerAt(h.PublicURL)}
	for _, e := range o.Record.Entries {
		all = append(all, routerAt(e.URL))
	}
	return all
}

// compare says how our configuration has the client's entry. An entry that a person imported is ours, whatever became of it since.
func (o *Other) compare(ours Ours, theirs converted) {
	name, imported := ours.Imported[theirs.hash]
	same, ok := ours.same(theirs.server)
	if !ok && imported {
		same, ok = ours.server(name)
	}
	if !ok {
		if ours.has(theirs.name) {
			o.Stays = "yours of this name starts another server"
		}
		return
	}
	o.Ours = same.Name
	their, err := hujson.Parse([]byte(theirs.text))
	all := lacks(ours.entry(same.Name), &their)
	keys := slices.DeleteFunc(slices.Clone(all), func(key string) bool {
		return slices.Contains(compared, key) || key == "disabled" && same.Disabled
	})
	switch {
	case err != nil || same.Misconfigured != "":
		o.Stays = "yours can't start: " + same.Misconfigured
	case len(keys) > 0 && !imported:
		o.Stays = fmt.Sprintf("yours lacks or differs in %q", keys)
	case imported:
		o.Differs = all
	}
}

// WithoutOthers returns the content of s without the client's other servers that metarouter has.
func WithoutOthers(c Client, s Source, others []Other) ([]byte, error) {
	var names []string
	for _, o := range others {
		if o.Goes() {
			names = append(names, o.Name)
		}
	}
	return without(c, s, names)
}

// without returns a client's file without the servers of those names.
func without(c Client, s Source, names []string) ([]byte, error) {
	d, v, err := serversOf(c, s)
	if err != nil || v == nil || len(names) == 0 {
		return s.Data, err
	}
	d.remove(v, func(i item) bool { return slices.Contains(names, i.key) })
	return d.bytes(), nil
}

// compared lists the keys that Server.Hash compares.
var compared = []string{"type", "transport", "transportType", "command", "args", "env", "cwd", "url", "httpUrl", "serverUrl", "headers"}

// lacks returns the keys of their entry that ours does not have, or has with another value.
func lacks(our, their *hujson.Value) (keys []string) {
	for _, i := range items(their) {
		key := i.key
		if m := member(our, key); !slices.Contains(keys, key) && (m == nil || !equal(m.Value, member(their, key).Value.String())) {
			keys = append(keys, key)
		}
	}
	return keys
}

// same returns our entry that starts the same server, preferably the one of that name.
// Entries that start nothing are the same only under the same name.
func (o Ours) same(s config.Server) (same config.Server, ok bool) {
	for _, ours := range o.Config.Servers {
		switch {
		case ours.Hash() != s.Hash():
		case ours.Name == s.Name:
			return ours, true
		case !ok && s.Command+s.URL != "":
			same, ok = ours, true
		}
	}
	return same, ok
}

func (o Ours) has(name string) bool {
	_, ok := o.server(name)
	return ok
}

func (o Ours) server(name string) (s config.Server, ok bool) {
	i := slices.IndexFunc(o.Config.Servers, func(s config.Server) bool { return s.Name == name })
	if i < 0 {
		return s, false
	}
	return o.Config.Servers[i], true
}
