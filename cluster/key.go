package cluster

import "github.com/mcp-metarouter/metarouter/cluster/internal/identity"

// Key returns the public key of the node with the private key in the file, which is made if it does
// not exist. The error says why the file can't be used.
func Key(file string) (string, error) {
	id, err := identity.Open(file)
	if err != nil {
		return "", err
	}
	return id.Key(), nil
}

// Fingerprint returns a public key as people compare it: its first and last 8 characters.
func Fingerprint(key string) string { return identity.Fingerprint(key) }
