package admin

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

// Requests wait for an edit only for a moment after it was saved.
func TestJustSaved(t *testing.T) {
	file := filepath.Join(t.TempDir(), "mcp.json")
	expect.Equal(t, justSaved(file), false, "without the file")
	expect.OK(t, os.WriteFile(file, nil, 0o600))
	now := time.Now()
	for age, want := range map[time.Duration]bool{0: true, time.Minute: false} {
		expect.OK(t, os.Chtimes(file, now, now.Add(-age)))
		expect.Equal(t, justSaved(file), want, "after %v", age)
	}
}
