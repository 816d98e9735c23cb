package clients

import (
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
		d.add(&d.root, field{"$schema", schemaURL}, field{trusted[0], nested([]string{key}, trusted[1:]...)})
	case all == nil:
		err = d.put(&d.root, []string{key}, trusted...)
	case slices.ContainsFunc(items(all), isText(key)):
		return data, nil
	default:
		d.insert(all, true, 1, func(int, string) string { return quoted(key) })
	}
	return d.bytes(), err
}

// DistrustNode removes the public key of a node from those that our file trusts. If the file does
// not have it, data is returned as it is.
func DistrustNode(path string, data []byte, key string) ([]byte, error) {
	d, all, err := trustedOf(path, data)
	if err != nil || !slices.ContainsFunc(items(all), isText(key)) {
		return data, err
	}
	d.remove(all, isText(key))
	return d.bytes(), nil
}

// trustedOf opens a file of ours, and returns the array of trusted keys; nil if the file lacks it.
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

// isText returns whether an item is a string.
func isText(s string) func(item) bool {
	return func(i item) bool {
		said, ok := jsonc.Text(i.value)
		return ok && said == s
	}
}
