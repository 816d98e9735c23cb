//go:build unix

package daemon

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/layer"
)

// Only one client waits for a process at the socket that accepts connections and does not answer.
func TestHungRouterIsSetAside(t *testing.T) {
	layer.Integration(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	sockets := Sockets{filepath.Join(t.TempDir(), "run"), "x."}
	l, err := sockets.listen(shared)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var asked atomic.Int64
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() { // until the client leaves
				if n, _ := conn.Read(make([]byte, 1)); n > 0 {
					asked.Add(1)
				}
				io.Copy(io.Discard, conn)
				conn.Close()
			}()
		}
	}()
	c := &Joiner{
		Sockets: sockets, Terms: func() Terms { return Terms{} },
		Host: []string{self, "refusing-host"}, Log: filepath.Join(t.TempDir(), "log"),
	}
	for range 3 { // the routers that they start are gone when the next one comes
		if s, err := c.Join(t.Context()); !errors.Is(err, ErrLost) {
			t.Fatalf("Join = %v, %v", s, err)
		}
	}
	if n := asked.Load(); n != 1 {
		t.Errorf("%d clients waited for the process that hangs, want 1", n)
	}
	if found := sockets.running(""); !slices.ContainsFunc(found, func(path string) bool { return strings.Contains(path, "frozen-") }) {
		t.Errorf("commands do not find it: %q", found)
	}
}
