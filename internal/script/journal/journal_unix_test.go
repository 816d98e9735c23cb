//go:build unix

package journal

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/mcp-metarouter/metarouter/internal/safefile"
)

// A link in the place of a record does not choose another file, and a pipe is not waited for.
func TestRecordThatIsNoFile(t *testing.T) {
	victim := filepath.Join(t.TempDir(), "victim")
	if err := os.WriteFile(victim, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	for what, put := range map[string]func(path string) error{
		"link": func(path string) error { return os.Symlink(victim, path) },
		"pipe": func(path string) error { return syscall.Mkfifo(path, 0o600) },
	} {
		s := open(t, t.TempDir())
		j := begin(t, s, 1)
		j.Close(false)
		if err := put(j.path); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Resume("", 1, rules); !errors.Is(err, safefile.ErrIrregular) {
			t.Errorf("resumed from a %s: %v", what, err)
		}
		if _, err := s.Begin("", 1, rules); !errors.Is(err, safefile.ErrIrregular) {
			t.Errorf("begun in a %s: %v", what, err)
		}
	}
	if text, err := os.ReadFile(victim); err != nil || string(text) != "precious" {
		t.Errorf("the file that the link names has %q, %v", text, err)
	}
}
