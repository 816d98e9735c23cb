//go:build unix

package daemon

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/safefile"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

// TestMain plays, if it is started with the argument refusing-host, a shared router that
// lets no client join and does not end by itself.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "refusing-host" {
		l, err := net.Listen("unix", os.Args[2])
		if err != nil {
			panic(err)
		}
		time.AfterFunc(time.Minute, func() { os.Exit(1) }) // if the test did not end it
		http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "other terms", http.StatusConflict)
		}))
	}
	os.Exit(m.Run())
}

// A client ends the router that it started and that does not let it join: no other
// client will.
func TestRefusingHostIsEnded(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	sockets := Sockets{filepath.Join(t.TempDir(), "run"), "x."}
	c := &Joiner{
		Sockets: sockets, Terms: func() Terms { return Terms{} },
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
	t.Setenv("TMPDIR", t.TempDir()) // where sockets are if the path of the data is long
	sockets := SocketsOf(t.TempDir(), []string{"mcp.json"})
	if err := sockets.open(); err != nil {
		t.Fatal(err)
	}
	socket := func(pid string, alive bool) string {
		path := filepath.Join(sockets.dir, sockets.prefix+pid)
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
	if err := Serve(ctx, sockets, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(killed); err == nil {
		t.Error("the socket of a killed router is still there")
	}
	if _, err := os.Stat(alive); err != nil {
		t.Error("the socket of a router that runs was removed")
	}
}

// When the last client has left, nothing of the routers is left either, also if one of
// them was killed.
func TestNothingIsLeftBehind(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	data := filepath.Join(t.TempDir(), strings.Repeat("long", 20)) // so that the sockets are in the temporary folder
	sockets, other := SocketsOf(data, []string{"mcp.json"}), SocketsOf(data, []string{"other.json"})
	left := func() (names []string) {
		filepath.WalkDir(temp, func(path string, _ fs.DirEntry, _ error) error {
			if path != temp {
				names = append(names, filepath.Base(path))
			}
			return nil
		})
		return names
	}

	unlock, err := sockets.lock(t.Context()) // as a client does that looks for a router
	if err != nil {
		t.Fatal(err)
	}
	path, err := sockets.newSocket(shared)
	if err != nil {
		t.Fatal(err)
	}
	killed, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	killed.SetUnlinkOnClose(false)
	alive, err := sockets.listen(shared)
	if err != nil {
		t.Fatal(err)
	}
	neighbour, err := other.listen(shared)
	if err != nil {
		t.Fatal(err)
	}
	killed.Close()
	sockets.tidy()
	if n := len(left()); n != 5 {
		t.Errorf("while the lock is held: %q", left())
	}
	unlock()
	sockets.tidy()
	if n := len(left()); n != 4 { // the folder, the lock and two sockets
		t.Errorf("while a router runs: %q", left())
	}
	alive.Close()
	sockets.tidy()
	if n := len(left()); n != 2 { // the folder and the neighbour's socket
		t.Errorf("while a neighbour runs: %q", left())
	}
	neighbour.Close()
	if socketsAt(neighbour.Addr().String()).tidy(); len(left()) > 0 {
		t.Errorf("left behind: %q", left())
	}
}

// A client that waits for the lock gets it though its file is removed meanwhile, and
// no two have it.
func TestLockIsRemovedMeanwhile(t *testing.T) {
	sockets := Sockets{filepath.Join(t.TempDir(), "run"), "x."}
	var held atomic.Int32
	var running sync.WaitGroup
	for range 8 {
		running.Go(func() {
			for range 50 {
				unlock, err := sockets.lock(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				if held.Add(1) > 1 {
					t.Error("two have the lock")
				}
				held.Add(-1)
				unlock()
				sockets.tidy()
			}
		})
	}
	running.Wait()
}

// A folder may have any name, such as one that is a pattern.
func TestSocketInAnyFolder(t *testing.T) {
	sockets := Sockets{filepath.Join(t.TempDir(), "[a]*"), "x."}
	l, err := sockets.listen(shared)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if got := sockets.running(shared); len(got) != 1 || got[0] != l.Addr().String() {
		t.Errorf("%q; want %s", got, l.Addr())
	}
}

// The newest router is asked first, whatever its socket's name.
func TestNewestSocketFirst(t *testing.T) {
	sockets := Sockets{filepath.Join(t.TempDir(), "run"), "x."}
	var paths []string
	for i := range 5 {
		l, err := sockets.listen(shared)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		at := time.Now().Add(time.Duration(i) * time.Minute)
		if err := os.Chtimes(l.Addr().String(), at, at); err != nil {
			t.Fatal(err)
		}
		paths = append([]string{l.Addr().String()}, paths...)
	}
	if got := sockets.running(shared); !slices.Equal(got, paths) {
		t.Errorf("%q; want %q", got, paths)
	}
}

// What is in a folder that others may have made is neither listened on nor asked.
func TestFolderOfAnother(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can give a folder away")
	}
	sockets := Sockets{filepath.Join(t.TempDir(), "run"), "x."}
	l, err := sockets.listen("")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := os.Chown(sockets.dir, 1, 1); err != nil {
		t.Fatal(err)
	}
	if l, err := sockets.listen(""); err == nil {
		l.Close()
		t.Error("a socket was made in it")
	}
	if got := sockets.running(""); len(got) > 0 {
		t.Errorf("%q would be asked", got)
	}
}

// A link in the place of the lock makes no file, and a pipe is not waited for.
func TestLockThatIsNoFile(t *testing.T) {
	sockets := Sockets{filepath.Join(t.TempDir(), "run"), "x."}
	if err := sockets.open(); err != nil {
		t.Fatal(err)
	}
	for _, put := range []func(path string) error{
		func(path string) error { return os.Symlink("new", path) },
		func(path string) error { return syscall.Mkfifo(path, 0o600) },
	} {
		if err := put(sockets.lockFile()); err != nil {
			t.Fatal(err)
		}
		if _, err := sockets.lock(t.Context()); !errors.Is(err, safefile.ErrIrregular) {
			t.Errorf("the lock: %v", err)
		}
		if err := os.Remove(sockets.lockFile()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Lstat(filepath.Join(sockets.dir, "new")); err == nil {
		t.Error("a file was made through the link")
	}
}

// With an ended context, a client does not wait for the lock.
func TestLockGivesUp(t *testing.T) {
	sockets := Sockets{filepath.Join(t.TempDir(), "run"), "x."}
	unlock, err := sockets.lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := sockets.lock(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want that of the context, not of the lock", err)
	}
}
