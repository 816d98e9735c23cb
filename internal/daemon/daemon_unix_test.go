//go:build unix

package daemon

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// A router that was killed leaves its socket. The next one with the same
// configuration clears it away, and leaves those of routers that run.
func TestSocketOfAKilledRouter(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir()) // where sockets are if the path of the data is long
	place := PlaceOf(t.TempDir(), []string{"mcp.json"})
	if err := place.open(); err != nil {
		t.Fatal(err)
	}
	socket := func(pid string, alive bool) string {
		path := filepath.Join(place.dir, place.prefix+pid)
		l, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		if alive {
			t.Cleanup(func() { l.Close() })
			return path
		}
		l.(*net.UnixListener).SetUnlinkOnClose(false)
		l.Close()
		old := time.Now().Add(-2 * staleAfter)
		if err := os.Chtimes(path, old, old); err != nil {
			t.Fatal(err)
		}
		return path
	}
	killed, alive := socket("1", false), socket("2", true)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Serve(ctx, place, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(killed); err == nil {
		t.Error("the socket of a killed router is still there")
	}
	if _, err := os.Stat(alive); err != nil {
		t.Error("the socket of a router that runs was removed")
	}
}
