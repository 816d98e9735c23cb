package edit

import (
	"fmt"
	"testing"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/clients"
)

// A key goes into the file with the "trusted" that counts.
func TestClusterFile(t *testing.T) {
	const none, other, some, trusted = `{}`, `{"metarouter": {}}`, `{"metarouter": {"cluster": {}}}`, `{"metarouter": {"cluster": {"trusted": []}}}`
	for _, tt := range []struct {
		files []string
		want  int
	}{
		{[]string{none}, 0}, {[]string{none, none}, 1}, {[]string{other, none}, 1}, {[]string{some, other}, 0}, {[]string{some, some, none}, 1},
		{[]string{trusted, some, none}, 0}, {[]string{trusted, trusted, some}, 1},
	} {
		var files []file
		for i, text := range tt.files {
			files = append(files, file{File: clients.File{Path: fmt.Sprint(i), Data: []byte(text)}})
		}
		if f, err := clusterFile(files); err != nil || f.Path != fmt.Sprint(tt.want) {
			t.Errorf("%q: %s, %v, want %d", tt.files, f.Path, err, tt.want)
		}
	}
}
