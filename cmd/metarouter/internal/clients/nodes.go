package clients

import (
	"fmt"
	"slices"

	"github.com/mcp-metarouter/metarouter/internal/jsonc"
)

// trusted are the keys that lead to the public keys of trusted nodes in a file of ours.
var trusted = []string{"metarouter", "cluster", "trusted"}

// TrustNode adds the public key of a node to those that our file trusts. If the file has it
// already, data is returned as it is.
func TrustNode(path string, data []byte, key string) ([]byte, error) {
	d, err := open(path, data)
	if err != nil {
		return nil, err
	}
	all := d.at(trusted...)
	switch {
	case len(data) == 0:
		d.add(&d.root, field{"$schema", schemaURL}, field{trusted[0], nested([]string{key}, trusted[1:]...)})
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
