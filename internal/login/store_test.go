package login

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
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

// TestOneReadServesAll checks that many who look at a changed file wait for one read of it, rather than each decrypting all logins.
func TestOneReadServesAll(t *testing.T) {
	t.Setenv("METAROUTER_KEYRING", "off")
	folder := t.TempDir()
	mine, other := NewStore(folder), NewStore(folder)
	for round := range 20 {
		expect.OK(t, other.edit(t.Context(), func(c *content) error {
			c.Pins["round"] = strings.Repeat("x", round+1)
			return nil
		}))
		var all sync.WaitGroup
		var found sync.Map
		for range 50 {
			all.Go(func() {
				c, err := mine.read(t.Context(), false)
				expect.OK(t, err)
				found.Store(c, nil)
			})
		}
		all.Wait()
		reads := 0
		for c := range found.Range {
			reads++
			expect.Equal(t, len(c.(*content).Pins["round"]), round+1)
		}
		expect.Equal(t, reads, 1, "reads of one change")
	}
}
