package clients

import (
	"fmt"
	"slices"

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
	Stale   bool     // it shows a server that is ours no more
}

// goes reports whether the client needs no entry for the server: metarouter has it, or it was one of ours.
func (o Other) goes() bool { return o.Only != "" || o.Stale || o.Ours != "" && o.Stays == "" }

// Needless returns the names of the servers for which the client needs no entry of its own.
func Needless(others []Other) (names []string) {
	for _, o := range others {
		if o.goes() {
			names = append(names, o.Name)
		}
	}
	return names
}

// Others returns the servers in a client's file other than our entry. path is the path of
// our file.
func Others(s Source, path string, ours Ours) ([]Other, error) {
	all, _, err := find([]Source{s})
	if err != nil {
		return nil, err
	}
	var others []Other
	for _, e := range all {
		if e.name == EntryName {
			continue
		}
		theirs, err := e.convert(path)
		o := Other{Name: e.name, Router: theirs.server.Self}
		switch only := onlyOf(theirs.server); {
		case only != "" && ours.has(only):
			o.Only = only
		case only != "":
			o.Stale = slices.Contains(after("--config", theirs.server.Args), path)
		case err == nil && !o.Router:
			o.compare(ours, theirs)
		}
		others = append(others, o)
	}
	return others, nil
}

// compare says how our configuration has the client's entry. An entry that a person imported is ours, whatever became of it since.
func (o *Other) compare(ours Ours, theirs converted) {
	name, imported := ours.Imported[theirs.hash]
	same, ok := ours.same(theirs.server)
	if !ok && imported {
		same, ok = ours.named(name)
	}
	if !ok {
		if ours.has(theirs.name) {
			o.Stays = "yours of this name starts another server"
		}
		return
	}
	o.Ours = same.Name
	all := lacks(ours.entry(same.Name), theirs.value)
	keys := slices.DeleteFunc(slices.Clone(all), func(key string) bool {
		return slices.Contains(compared, key) || key == "disabled" && same.Disabled
	})
	switch {
	case same.Misconfigured != "":
		o.Stays = "yours can't start: " + same.Misconfigured
	case imported:
		o.Differs = slices.DeleteFunc(all, func(key string) bool { return same.Hash() == theirs.server.Hash() && slices.Contains(compared, key) })
	case len(keys) > 0:
		o.Stays = fmt.Sprintf("yours lacks or differs in %q", keys)
	}
}

// compared lists the keys that Server.Hash compares.
var compared = []string{"type", "transport", "transportType", "command", "args", "env", "cwd", "url", "httpUrl", "serverUrl", "headers"}

// lacks returns the keys of their entry that ours does not have, or has with another value.
func lacks(our, their *hujson.Value) (keys []string) {
	for _, i := range items(their) {
		if m := member(our, i.key); !slices.Contains(keys, i.key) && (m == nil || !equal(m.Value, written(&member(their, i.key).Value))) {
			keys = append(keys, i.key)
		}
	}
	return keys
}

// entry returns our entry of that name as it is written, or nil.
func (o Ours) entry(name string) *hujson.Value {
	for _, f := range slices.Backward(o.Files) {
		if _, homes, keys, err := openOurs(f.Path, f.Data); err == nil {
			if m := entryOf(homes, keys, name); m != nil {
				return &m.Value
			}
		}
	}
	return nil
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

// named returns our entry of that name.
func (o Ours) named(name string) (s config.Server, ok bool) {
	i := slices.IndexFunc(o.Config.Servers, func(s config.Server) bool { return s.Name == name })
	if i < 0 {
		return s, false
	}
	return o.Config.Servers[i], true
}

func (o Ours) has(name string) bool {
	_, ok := o.named(name)
	return ok
}
