package telemetry

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/safefile"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// A link that is put in place of the log, before or while it is open, is not followed.
func TestLinkInPlaceOfLog(t *testing.T) {
	folder := t.TempDir()
	log, victim := filepath.Join(folder, "log"), filepath.Join(folder, "victim")
	expect.OK(t, os.WriteFile(victim, []byte("mine"), 0o600))
	r, err := openRotated(config.AccessLog{File: log, MaxSize: 5, MaxFiles: 3})
	expect.OK(t, err)
	defer r.close()
	expect.OK(t, r.write([]byte("zero\n")))
	expect.OK(t, errors.Join(os.Remove(log), os.Symlink(victim, log)))
	if err := r.write([]byte("one\n")); !errors.Is(err, safefile.ErrIrregular) {
		t.Errorf("a link took the log's place: %v", err)
	}
	if _, err := openRotated(config.AccessLog{File: log, MaxSize: 5, MaxFiles: 3}); !errors.Is(err, safefile.ErrIrregular) {
		t.Errorf("a link is opened: %v", err)
	}
	if got, _ := os.ReadFile(victim); string(got) != "mine" {
		t.Errorf("the file that the link leads to has %q", got)
	}
	expect.OK(t, os.Remove(log))
	expect.OK(t, r.write([]byte("two\n")), "the link is gone, and yet")
}
