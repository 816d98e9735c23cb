package login

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

// TestIsSame checks that another file of the same size and time is seen.
func TestIsSame(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	stat := func(path string) os.FileInfo {
		expect.OK(t, os.WriteFile(path, []byte("text"), 0o600))
		expect.OK(t, os.Chtimes(path, time.Time{}, time.Unix(1e9, 0)))
		info, err := os.Stat(path)
		expect.OK(t, err)
		return info
	}
	one := stat(path)
	if isSame(one, nil) || !isSame(one, stat(path)) || runtime.GOOS != "windows" && isSame(one, stat(path+"2")) {
		t.Error("another file is taken for it, or it is for another file")
	}
}
