package login

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

// TestIsSame checks that another file is seen, even one of the same size and time.
func TestIsSame(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	write := func(path, text string) os.FileInfo {
		expect.OK(t, os.WriteFile(path, []byte(text), 0o600))
		expect.OK(t, os.Chtimes(path, time.Time{}, time.Unix(1e9, 0)))
		info, err := os.Stat(path)
		expect.OK(t, err)
		return info
	}
	one := write(path, "one")
	for name, other := range map[string]os.FileInfo{"none": nil, "longer": write(path, "longer"), "another": write(path+"2", "two")} {
		if isSame(one, other) && (runtime.GOOS != "windows" || name != "another") {
			t.Errorf("the file is taken for the %s one", name)
		}
	}
	if !isSame(one, write(path, "two")) || !isSame(nil, nil) {
		t.Error("a file differs from itself")
	}
}
