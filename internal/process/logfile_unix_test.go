//go:build unix

package process

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

// A link in place of a server's log is not followed.
func TestLogFileFollowsNoLink(t *testing.T) {
	dir := t.TempDir()
	victim := filepath.Join(dir, "victim")
	expect.OK(t, errors.Join(
		os.WriteFile(victim, []byte("mine"), 0o600), os.Mkdir(filepath.Join(dir, "logs"), 0o700),
		os.Symlink(victim, filepath.Join(dir, "logs", "s.log")),
	))
	l := NewLogFile(dir, "s")
	l.add([]byte("a line\n"))
	if got, err := os.ReadFile(victim); err != nil || string(got) != "mine" {
		t.Errorf("the file that the link leads to has %q, %v", got, err)
	}
}
