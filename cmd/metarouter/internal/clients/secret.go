package clients

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/tailscale/hujson"

	"github.com/mcp-metarouter/metarouter/internal/jsonc"
	"github.com/mcp-metarouter/metarouter/internal/prose"
	"github.com/mcp-metarouter/metarouter/internal/secret"
)

// A literal is a value of an entry that is written as text.
type literal struct {
	at            *hujson.Value
	before, value string // before stays in front of the value, such as "Bearer "
	key, stored   string // its variable, option or header, and the usual name of its secret
	clear         bool   // it looks like a secret
}

// literals returns the values in env, headers and args of a server's entry.
func literals(server string, entry *hujson.Value) (all []literal) {
	if command := member(entry, "command"); command != nil && object(&command.Value) != nil { // in Zed's dialect
		all = literals(server, &command.Value)
	}
	for _, kind := range []string{"env", "headers", "args"} {
		m := member(entry, kind)
		if m == nil {
			continue
		}
		option := "" // the argument before
		for _, i := range items(&m.Value) {
			said, ok := jsonc.Text(*i.value)
			if !ok || strings.Contains(said, "${") {
				continue
			}
			l := literal{at: i.value, value: said, key: i.key}
			before, after, found := strings.Cut(said, map[string]string{"headers": " ", "args": "="}[kind])
			if kind == "args" {
				l.key, option = option, ""
				if strings.HasPrefix(said, "-") {
					option = said
				}
			}
			if found && kind != "env" {
				l.before, l.value = said[:len(before)+1], after
			}
			if found && kind == "args" {
				l.key = before
			}
			if l.clear = secret.Clear(l.key, l.value) || secret.Clear(l.key, said) && !secret.Clear(l.key, before); l.clear || l.key != "" && kind != "headers" { // else the name is the server's
				l.stored = secret.StoredName(server, l.key, kind == "headers")
			}
			all = append(all, l)
		}
	}
	return all
}

// MoveSecret writes a reference to the stored secret of that name into the server's entry, in place of
// a value that it returns: the value of the variable, option or header that the secret has its name
// from, else the only value that looks like a secret.
func MoveSecret(path string, data []byte, server, name string) (text []byte, value string, err error) {
	text, err = editEntry(path, data, server, func(d *document, entry *hujson.Value) error {
		all := literals(server, entry)
		named := func(l literal) bool { return l.stored == name || l.key == name }
		found := slices.DeleteFunc(slices.Clone(all), func(l literal) bool { return !named(l) })
		if len(found) != 1 {
			found = slices.DeleteFunc(slices.Clone(all), func(l literal) bool { return !l.clear || len(found) > 0 && !named(l) })
		}
		if len(found) == 0 || slices.ContainsFunc(found, func(l literal) bool { return l.value != found[0].value }) {
			var keys []string
			for _, l := range all {
				if l.key != "" {
					keys = append(keys, l.key)
				}
			}
			return fmt.Errorf("which value of server %q in %s is to be %s? Name the secret like the variable, option or header that has the value as text: %s", server, path, name,
				cmp.Or(prose.List(keys, 10), fmt.Sprintf("none has one, so run 'metarouter secret set %s', and write ${keyring:%[1]s} where it belongs", name)))
		}
		value = found[0].value
		for _, l := range all {
			if l.value == value {
				l.at.Value = hujson.Literal(quoted(l.before + "${keyring:" + name + "}"))
			}
		}
		return nil
	})
	return text, value, err
}

// minHeld is how many bytes a value must have to be looked for: files have shorter ones by chance.
const minHeld = 8

// Holding returns which of our files, of the clients' and of the copies of both that have the value as
// text.
func Holding(p System, ours []string, value string) (paths []string) {
	for _, c := range table {
		ours = append(slices.Clone(ours), c.Files(p)...)
	}
	for _, path := range ours {
		f, err := Read(path)
		if err != nil || len(value) < minHeld {
			continue
		}
		for _, path := range append(f.Backups(), path) {
			f, _ := Read(path)
			held := bytes.Contains(f.Data, []byte(value)) || bytes.Contains(f.Data, []byte(strings.Trim(quoted(value), `"`)))
			if held && !slices.Contains(paths, path) {
				paths = append(paths, path)
			}
		}
	}
	return paths
}
