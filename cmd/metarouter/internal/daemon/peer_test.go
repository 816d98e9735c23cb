//go:build linux || darwin

package daemon

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

// Only processes of the same user are let in, and only such a router is asked.
func TestPeer(t *testing.T) {
	for _, user := range []int{os.Geteuid(), os.Geteuid() + 1} {
		path := filepath.Join(t.TempDir(), "s")
		l, err := net.Listen("unix", path)
		expect.OK(t, err)
		served := make(chan struct{})
		go func() {
			defer close(served)
			for {
				c, err := (ownListener{l, user}).Accept()
				if err != nil {
					return
				}
				io.WriteString(c, "hello")
				c.Close()
			}
		}()
		c, err := dial(t.Context(), path)
		expect.OK(t, err)
		got, _ := io.ReadAll(c)
		if welcome := user == os.Geteuid(); (string(got) == "hello") != welcome || (checkPeer(c, user) == nil) != welcome {
			t.Errorf("a process of user %d reads %q from one of user %d: %v", os.Geteuid(), got, user, checkPeer(c, user))
		}
		c.Close()
		l.Close()
		<-served
	}
}
