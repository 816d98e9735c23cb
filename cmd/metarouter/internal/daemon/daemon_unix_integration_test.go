//go:build unix

package daemon

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/layer"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

// Only one client waits for a process at the socket that accepts connections and does not answer.
func TestHungRouterIsSetAside(t *testing.T) {
	layer.Integration(t)
	self, err := os.Executable()
	expect.OK(t, err)
	sockets := Sockets{filepath.Join(t.TempDir(), "run"), "x."}
	l, err := sockets.listen(shared)
	expect.OK(t, err)
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
		Sockets: sockets, Text: func() string { return "" }, Other: func(string) {},
		Host: []string{self, "refusing-host"}, Log: filepath.Join(t.TempDir(), "log"),
	}
	for range 3 { // the routers that they start are gone when the next one comes
		if s, err := c.Join(t.Context()); !errors.Is(err, ErrLost) {
			t.Fatalf("Join = %v, %v", s, err)
		}
	}
	expect.Equal(t, asked.Load(), 1, "clients waited for the process that hangs")
	if found := sockets.running(""); !slices.ContainsFunc(found, func(path string) bool { return strings.Contains(path, "frozen-") }) {
		t.Errorf("commands do not find it: %q", found)
	}
}

// A client ends the router that it started and that does not let it join: no other
// client will.
func TestRefusingHostIsEnded(t *testing.T) {
	layer.Integration(t)
	self, err := os.Executable()
	expect.OK(t, err)
	sockets := Sockets{filepath.Join(t.TempDir(), "run"), "x."}
	c := &Joiner{
		Sockets: sockets, Text: func() string { return "" }, Other: func(string) {},
		Host: []string{self, "refusing-host"}, Log: filepath.Join(t.TempDir(), "log"),
	}
	if s, err := c.Join(t.Context()); !errors.Is(err, ErrLost) {
		t.Fatalf("Join = %v, %v", s, err)
	}
	for _, socket := range sockets.running(shared) {
		mcptest.WaitFor(t, "the end of the router", func() bool {
			conn, err := net.Dial("unix", socket)
			if err == nil {
				conn.Close()
			}
			return err != nil
		})
	}
}

// A router that was killed leaves its socket. The next one with the same
// configuration clears it away, and leaves the sockets of running routers.
func TestSocketOfAKilledRouter(t *testing.T) {
	layer.Integration(t)
	t.Setenv("TMPDIR", t.TempDir()) // where sockets are if the path of the data is long
	sockets := SocketsOf(t.TempDir(), []string{"mcp.json"})
	expect.OK(t, sockets.open())
	socket := func(pid string, alive bool) string {
		path := filepath.Join(sockets.dir, sockets.prefix+pid)
		l, err := net.Listen("unix", path)
		expect.OK(t, err)
		if alive {
			t.Cleanup(func() { l.Close() })
			return path
		}
		l.(*net.UnixListener).SetUnlinkOnClose(false)
		l.Close()
		old := time.Now().Add(-2 * staleAfter)
		expect.OK(t, os.Chtimes(path, old, old))
		return path
	}
	killed, alive := socket("1", false), socket("2", true)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	expect.OK(t, Serve(ctx, sockets, nil))
	if _, err := os.Stat(killed); err == nil {
		t.Error("the socket of a killed router is still there")
	}
	_, err := os.Stat(alive)
	expect.OK(t, err, "the socket of a router that runs was removed")
}

// With an ended context, a client does not wait for the lock.
func TestLockGivesUp(t *testing.T) {
	layer.Integration(t)
	sockets := Sockets{filepath.Join(t.TempDir(), "run"), "x."}
	unlock, err := sockets.lock(t.Context())
	expect.OK(t, err)
	defer unlock()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := sockets.lock(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want that of the context, not of the lock", err)
	}
}

// The socket of a router that lives stays, though it takes no connection for a moment.
func TestSocketOfABusyRouterStays(t *testing.T) {
	layer.Integration(t)
	if runtime.GOOS != "linux" {
		t.Skip("here such a connection is refused, or waits")
	}
	sockets := Sockets{filepath.Join(t.TempDir(), "run"), "x."}
	expect.OK(t, sockets.open())
	path := filepath.Join(sockets.dir, "x.shared-busy")
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	expect.OK(t, err)
	expect.OK(t, syscall.Bind(fd, &syscall.SockaddrUnix{Name: path}))
	expect.OK(t, syscall.Listen(fd, 0))
	old := time.Now().Add(-time.Hour)
	expect.OK(t, os.Chtimes(path, old, old))
	for range 10 { // more than wait for it to accept
		if c, err := net.DialTimeout("unix", path, time.Second); err == nil {
			defer c.Close()
		}
	}
	sockets.running("")
	_, err = os.Lstat(path)
	expect.OK(t, err)
	syscall.Close(fd)
	sockets.running("")
	_, err = os.Lstat(path)
	expect.Error(t, err, "no such file")
}
