package clients

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/tailscale/hujson"

	"github.com/mcp-metarouter/metarouter/internal/jsonc"
)

// trusted are the keys that lead to the public keys of trusted nodes in a file of ours.
var trusted = []string{"metarouter", "cluster", "trusted"}

// ClusterKeys returns how many of the keys "metarouter", "cluster" and "trusted", each inside the
// one before, our file has.
func ClusterKeys(path string, data []byte) (n int, err error) {
	d, err := open(path, data)
	if err != nil {
		return 0, err
	}
	for n < len(trusted) && d.at(trusted[:n+1]...) != nil {
		n++
	}
	return n, nil
}

// TrustNode adds the public key of a node to those that our file trusts. If the file has it
// already, data is returned as it is.
func TrustNode(path string, data []byte, key string) ([]byte, error) {
	d, all, err := trustedOf(path, data)
	switch {
	case err != nil:
		return nil, err
	case len(data) == 0:
		d.add(&d.root, field{"$schema", text(schemaURL)}, field{trusted[0], nested(trusted[1:], list([]string{key}))})
		return d.bytes(), nil
	case all == nil:
		err := d.putIn(&d.root, trusted, list([]string{key}))
		return d.bytes(), err
	case slices.ContainsFunc(elements(all), isText(key)):
		return data, nil
	}
	d.append(all, quoted(key))
	return d.bytes(), nil
}

// DistrustNode removes the public key of a node from those that our file trusts. If the file has
// none, data is returned as it is.
func DistrustNode(path string, data []byte, key string) ([]byte, error) {
	d, all, err := trustedOf(path, data)
	if err != nil {
		return nil, err
	}
	if all == nil || !slices.ContainsFunc(elements(all), isText(key)) {
		return data, nil
	}
	var items []item
	for _, e := range elements(all) {
		items = append(items, item{e.StartOffset, e, isText(key)(e)})
	}
	d.removeItems(items)
	return d.bytes(), nil
}

// trustedOf opens a file of ours, and returns the array of trusted keys; nil if there is none.
func trustedOf(path string, data []byte) (*document, *hujson.Value, error) {
	d, err := open(path, data)
	if err != nil {
		return nil, nil, err
	}
	all := d.at(trusted...)
	if all == nil || all.Value.Kind() == 'n' {
		return d, nil, nil
	}
	if all.Value.Kind() != '[' {
		return nil, nil, fmt.Errorf(`%s: "trusted" of "cluster" must be an array; write ["U…"] there`, path)
	}
	return d, all, nil
}

func elements(array *hujson.Value) []hujson.Value { return array.Value.(*hujson.Array).Elements }

func isText(s string) func(hujson.Value) bool {
	return func(v hujson.Value) bool {
		said, ok := jsonc.Text(v)
		return ok && said == s
	}
}

// putIn sets the value at keys inside an object, and makes the objects on the way to it.
func (d *document) putIn(v *hujson.Value, keys []string, value func(*document, string) string) error {
	if len(keys) == 1 {
		d.put(v, field{keys[0], value})
		return nil
	}
	m := member(v, keys[0])
	if m != nil && object(&m.Value) != nil {
		return d.putIn(&m.Value, keys[1:], value)
	}
	if m != nil && m.Value.Value.Kind() != 'n' {
		return fmt.Errorf("%s: %q must be an object; write {…}", d.path, keys[0])
	}
	d.put(v, field{keys[0], nested(keys[1:], value)})
	return nil
}

// nested returns objects with one key each, the last of which has the value.
func nested(keys []string, value func(*document, string) string) func(*document, string) string {
	for _, key := range slices.Backward(keys) {
		value = fields(field{key, value})
	}
	return value
}

// append puts an element behind the last one of an array. In an array of several lines it gets one
// of its own.
func (d *document) append(v *hujson.Value, text string) {
	all, closing := elements(v), v.EndOffset-1
	trailing := ""
	if n := len(all); n > 0 && all[n-1].AfterExtra != nil {
		trailing = ","
	}
	base, alone := d.indentAt(closing)
	if alone && bytes.ContainsRune(d.data[v.StartOffset:closing], '\n') {
		indent := base + d.unit
		if n := len(all); n > 0 {
			if own, first := d.indentAt(all[n-1].StartOffset); first {
				indent = own
			}
			if trailing == "" {
				d.splice(all[n-1].EndOffset, all[n-1].EndOffset, ",")
			}
		}
		where := bytes.LastIndexByte(d.data[:closing], '\n')
		if bytes.HasSuffix(d.data[:where], []byte("\r")) {
			where--
		}
		d.splice(where, where, d.newline+indent+text+trailing)
		return
	}
	where := len(bytes.TrimRight(d.data[:closing], " \t"))
	between := ""
	if len(all) > 0 && d.spaced {
		between = " "
	}
	if n := len(all); n > 0 && trailing == "" {
		d.splice(all[n-1].EndOffset, all[n-1].EndOffset, ",")
	}
	d.splice(where, where, between+text+trailing)
}
