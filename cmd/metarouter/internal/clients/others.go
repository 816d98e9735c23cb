package clients

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/tailscale/hujson"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/commandline"
	"github.com/mcp-metarouter/metarouter/internal/jsonc"
	"github.com/mcp-metarouter/metarouter/internal/prose"
)

// An Other is a server of the client's own.
type Other struct {
	Name     string
	Ours     string   // the name of our entry that starts the same server; "" without one
	Lacks    []string // keys that our entry does not have, or has with another value
	Differs  string   // our entry and theirs side by side, where Lacks or Ours say that they differ
	Version  string   // our entry and theirs side by side, if theirs has another version of the package
	Broken   string   // why our entry does not start
	Disabled bool     // our entry is disabled, and theirs is not
	Imported bool     // a person imported it as it is, so only a note says how our entry differs
	Router   bool     // it starts metarouter too
}

// Others returns the servers in a client's file other than our entry. path is the path of
// our file.
func Others(c Client, s Source, path string, ours Ours) ([]Other, error) {
	all, _, err := c.find([]Source{s})
	if err != nil {
		return nil, err
	}
	var others []Other
	for _, f := range all {
		if f.name == EntryName {
			continue
		}
		theirs, err := c.convert(f, path)
		if err != nil {
			others = append(others, Other{Name: f.name})
			continue
		}
		o := Other{Name: f.name, Router: theirs.server.Self}
		if !o.Router {
			if err := o.compare(ours, theirs); err != nil {
				return nil, err
			}
		}
		others = append(others, o)
	}
	return others, nil
}

// compare says how our configuration has the client's entry.
func (o *Other) compare(ours Ours, theirs converted) error {
	their, err := hujson.Parse([]byte(theirs.text))
	if err != nil {
		return err
	}
	same, ok := ours.same(theirs.server)
	name, imported := ours.Imported[theirs.hash]
	o.Imported = imported
	edited := imported && !ok
	if edited {
		if same, ok = ours.server(name); !ok {
			o.Differs = "it is not in your configuration any more"
			return nil
		}
	}
	if !ok {
		if our := ours.entry(theirs.name); our != nil {
			o.Differs = cmp.Or(difference(our, &their, compared), "it does not start the same")
		}
		return nil
	}
	our := ours.entry(same.Name)
	o.Ours, o.Broken, o.Disabled = same.Name, same.Misconfigured, same.Disabled && !theirs.server.Disabled
	o.Lacks = lacks(our, &their)
	if o.Disabled { // by the user, who wants it so
		o.Lacks = slices.DeleteFunc(o.Lacks, func(key string) bool { return key == "disabled" })
	}
	if o.Differs = difference(our, &their, o.Lacks); edited {
		o.Differs = difference(our, &their, slices.Concat(compared, o.Lacks))
	} else if same.Hash() != theirs.server.Hash() && unversioned(theirs.server) != theirs.server.Hash() {
		o.Version = difference(our, &their, []string{"args"})
	}
	return nil
}

// WithoutOthers returns the content of s without the client's other servers. It fails
// unless all of them are in our configuration, or were imported. flags are those that name it on a command line.
func WithoutOthers(c Client, s Source, e RouterEntry, others []Other, flags string) ([]byte, error) {
	var names, lost []string
	missing, differs := "", ""
	for _, o := range others {
		switch {
		case o.Router:
		case o.Imported:
			names = append(names, o.Name)
		case o.Differs != "":
			differs = fmt.Sprintf("where entries differ, correct yours, or take the client's with 'metarouter import %s%s --overwrite --write'", c.Name, flags)
			lost = append(lost, fmt.Sprintf("server %q differs: %s", o.Name, o.Differs))
		case o.Ours == "":
			missing = fmt.Sprintf("copy the servers that you need with 'metarouter import %s%s --write', and delete from %s those that you do not need", c.Name, flags, s.Path)
			lost = append(lost, fmt.Sprintf("server %q is not in your configuration", o.Name))
		case o.Broken != "":
			lost = append(lost, fmt.Sprintf("server %q can't start with the entry in your configuration: %s", o.Name, o.Broken))
		default:
			names = append(names, o.Name)
		}
	}
	switch {
	case len(lost) > 0:
		return nil, fmt.Errorf("nothing was changed, since servers of %s would be lost (your configuration is %s):\n  %s\n%s; or leave --replace out to keep them next to metarouter",
			c.Title, e.Configs[len(e.Configs)-1], strings.Join(lost, "\n  "), cmp.Or(prose.Clauses(missing, differs), "correct your configuration"))
	}
	return without(c, s, names)
}

// without returns a client's file without the servers of those names.
func without(c Client, s Source, names []string) ([]byte, error) {
	if len(names) == 0 {
		return s.Data, nil
	}
	d, err := open(s.Path, s.Data)
	if err != nil {
		return nil, err
	}
	v, err := d.servers(keysIn(c, d, s.keys))
	if err != nil || v == nil {
		return s.Data, err
	}
	d.remove(v, func(i item) bool { return slices.Contains(names, i.key) })
	return d.bytes(), nil
}

// compared lists the keys that Server.Hash compares.
var compared = []string{"type", "transport", "transportType", "command", "args", "env", "cwd", "url", "httpUrl", "serverUrl", "headers"}

// lacks returns the keys of their entry that ours does not have, or has with another value,
// but for those that are compared.
func lacks(our, their *hujson.Value) (keys []string) {
	for _, m := range object(their).Members {
		key := jsonc.Key(m)
		if slices.Contains(compared, key) || slices.Contains(keys, key) {
			continue
		}
		if our == nil || member(our, key) == nil || !equal(member(our, key).Value, member(their, key).Value.String()) {
			keys = append(keys, key)
		}
	}
	return keys
}

// difference shows the values of those keys in which two entries differ, without secrets. It
// is "" if all are equal.
func difference(our, their *hujson.Value, keys []string) string {
	var says []string
	for _, key := range keys {
		a, b := shownMember(our, key), shownMember(their, key)
		m, n := member(our, key), member(their, key)
		switch {
		case m == nil && n == nil, m != nil && n != nil && equal(m.Value, n.Value.String()):
		case a == b:
			says = append(says, fmt.Sprintf("%q has other values, which are hidden here", key))
		default:
			says = append(says, fmt.Sprintf("%q: yours %s, the client's %s", key, a, b))
		}
	}
	return strings.Join(says, "; ")
}

// maxShown is how many characters of a value are shown.
const maxShown = 200

// shownMember returns the value of a key in one line, without secrets.
func shownMember(entry *hujson.Value, key string) string {
	m := member(entry, key)
	if m == nil {
		return "nothing"
	}
	shown := []rune(maskedValue(key, oneLine.write(m.Value.Value, "")))
	if len(shown) > maxShown {
		shown = append(shown[:maxShown], '…')
	}
	return string(shown)
}

// same returns our entry that starts the same server, preferably the one of that name.
// Entries that start nothing are the same only under the same name. An entry is also the same
// if it has the same name and only another version of its package, or if it has no version and
// ours has one: ours is pinned.
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
	whole := unversioned(s)
	for _, ours := range o.Config.Servers {
		if unversioned(ours) == whole && (ours.Name == s.Name || !ok && s.Command != "" && s.Hash() == whole) {
			return ours, true
		}
	}
	return same, ok
}

// unversioned is the entry's hash without the versions of the packages that it runs.
func unversioned(s config.Server) string {
	s.Args = commandline.WithoutVersions(s.Command, s.Args)
	return s.Hash()
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
