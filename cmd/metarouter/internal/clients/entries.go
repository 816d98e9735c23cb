package clients

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tailscale/hujson"

	"github.com/mcp-metarouter/metarouter/internal/jsonc"
)

// The functions of this file edit one of our own files, which is at path and has the
// content data; data is empty if the file does not exist yet. They return the new content.
// The rest stays as it is, byte for byte.

// roots are the keys under which package config finds servers.
var roots = []string{"mcpServers", "servers", "context_servers"}

// openOurs opens a file of ours, or begins one. homes are the objects that have servers; the keys lead to
// the one that gets new ones.
func openOurs(path string, data []byte) (d *document, homes []*hujson.Value, keys []string, err error) {
	if d, err = open(path, data); err != nil {
		return nil, nil, nil, err
	}
	if len(data) == 0 {
		d.add(&d.root, field{"$schema", schemaURL})
	}
	if d.serversKey == "" {
		return d, []*hujson.Value{&d.root}, nil, nil
	}
	for _, i := range items(&d.root) {
		if slices.Contains(roots, i.key) && object(i.value) != nil {
			homes = append(homes, i.value)
		}
	}
	return d, homes, []string{d.serversKey}, nil
}

// entryOf returns the entry of that name that counts: the last one of the file.
func entryOf(homes []*hujson.Value, keys []string, name string) *hujson.ObjectMember {
	if keys == nil && name == "metarouter" { // the router's own settings
		return nil
	}
	for _, home := range slices.Backward(homes) {
		if m := member(home, name); m != nil && (keys != nil || object(&m.Value) != nil) {
			return m
		}
	}
	return nil
}

// editEntry has edit change the entry of that name, which must be an object.
func editEntry(path string, data []byte, name string, edit func(*document, *hujson.Value) error) ([]byte, error) {
	d, homes, keys, err := openOurs(path, data)
	if err != nil {
		return nil, err
	}
	m := entryOf(homes, keys, name)
	if m == nil || object(&m.Value) == nil {
		return nil, fmt.Errorf("%s has no server %q that is an object", path, name)
	}
	if err := edit(d, &m.Value); err != nil {
		return nil, err
	}
	return d.bytes(), nil
}

// HasServer reports whether our file has an entry of that name.
func HasServer(path string, data []byte, name string) (bool, error) {
	_, homes, keys, err := openOurs(path, data)
	return err == nil && entryOf(homes, keys, name) != nil, err
}

// isSetting reports whether a name can't be that of a server, as the keys lead to: the file has its servers without a key around them.
func isSetting(keys []string, name string) bool {
	return keys == nil && (name == "metarouter" || slices.Contains(roots, name))
}

// PutServer makes entry, an object as JSON, the entry of that name: it replaces the present
// one, or adds it, without comments.
func PutServer(path string, data []byte, name, entry string) ([]byte, error) {
	d, homes, keys, err := openOurs(path, data)
	if err != nil {
		return nil, err
	}
	if isSetting(keys, name) {
		return nil, fmt.Errorf("%s has its servers without \"mcpServers\" around them, so none can be called %q; choose another name", path, name)
	}
	v, err := hujson.Parse([]byte(entry))
	if err != nil {
		return nil, fmt.Errorf("the entry: %s", strings.TrimPrefix(err.Error(), "hujson: "))
	}
	if object(&v) == nil {
		return nil, errors.New(`the entry must be an object; write {"command": "…", "args": ["…"]} or {"url": "…"}`)
	}
	if m := entryOf(homes, keys, name); m != nil {
		d.set(m, v.Value)
	} else {
		err = d.putServers(keys, field{name, v.Value})
	}
	return d.bytes(), err
}

// HasComments reports whether an entry has comments or trailing commas, which [PutServer] leaves out.
func HasComments(entry string) bool {
	v, err := hujson.Parse([]byte(entry))
	return err == nil && !v.IsStandard()
}

// RemoveServer takes the entries of that name out of our file.
func RemoveServer(path string, data []byte, name string) ([]byte, error) {
	d, homes, _, err := openOurs(path, data)
	if err != nil {
		return nil, err
	}
	for _, home := range homes {
		d.remove(home, func(key string) bool { return key == name })
	}
	return d.bytes(), nil
}

// DisableServer disables or enables the server, with the key that its entry has for this:
// "enabled", or else "disabled".
func DisableServer(path string, data []byte, name string, disabled bool) ([]byte, error) {
	return editEntry(path, data, name, func(d *document, entry *hujson.Value) error {
		enabled := member(entry, "enabled")
		if enabled != nil {
			d.set(enabled, !disabled)
		}
		if disabled && enabled == nil {
			return d.put(entry, true, "disabled")
		}
		if !disabled {
			d.remove(entry, func(key string) bool { return key == "disabled" })
		}
		return nil
	})
}

// SetArgument replaces the first argument of the server's command that is old.
func SetArgument(path string, data []byte, name, old, argument string) ([]byte, error) {
	return editEntry(path, data, name, func(d *document, entry *hujson.Value) error {
		args := member(entry, "args")
		if command := member(entry, "command"); args == nil && command != nil {
			args = member(&command.Value, "args") // in Zed's dialect
		}
		if args != nil {
			for _, i := range items(&args.Value) {
				if said, ok := jsonc.Text(*i.value); ok && said == old {
					i.value.Value = hujson.Literal(quoted(argument))
					return nil
				}
			}
		}
		return fmt.Errorf("%s: the entry has no argument %q", path, old)
	})
}

// trusted are the keys that lead to the public keys of trusted nodes in a file of ours.
var trusted = []string{"metarouter", "cluster", "trusted"}

// TrustNode adds the public key of a node to those that our file trusts. If the file has it
// already, data is returned as it is.
func TrustNode(path string, data []byte, key string) ([]byte, error) {
	d, _, _, err := openOurs(path, data)
	if err != nil {
		return nil, err
	}
	all := d.at(trusted...)
	switch {
	case all == nil || all.Value.Kind() == 'n':
		err = d.put(&d.root, []string{key}, trusted...)
	case all.Value.Kind() != '[':
		err = fmt.Errorf(`%s: "trusted" of "cluster" must be an array; write ["U…"] there`, path)
	case slices.ContainsFunc(items(all), func(i item) bool { said, _ := jsonc.Text(*i.value); return said == key }):
		return data, nil
	default:
		d.addElement(all, key)
	}
	return d.bytes(), err
}
