//go:build unix

package daemon

import (
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/safefile"
	"github.com/mcp-metarouter/metarouter/test/expect"
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

// A folder may have any name, such as one that is a pattern.
func TestSocketInAnyFolder(t *testing.T) {
	sockets := Sockets{filepath.Join(t.TempDir(), "[a]*"), "x."}
	l, err := sockets.listen(shared)
	expect.OK(t, err)
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
		expect.OK(t, err)
		defer l.Close()
		at := time.Now().Add(time.Duration(i) * time.Minute)
		expect.OK(t, os.Chtimes(l.Addr().String(), at, at))
		paths = append([]string{l.Addr().String()}, paths...)
	}
	expect.List(t, sockets.running(shared), paths)
}

// What is in a folder that others may have made is neither listened on nor asked.
func TestFolderOfAnother(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can give a folder away")
	}
	sockets := Sockets{filepath.Join(t.TempDir(), "run"), "x."}
	l, err := sockets.listen("")
	expect.OK(t, err)
	defer l.Close()
	expect.OK(t, os.Chown(sockets.dir, 1, 1))
	if l, err := sockets.listen(""); err == nil {
		l.Close()
		t.Error("a socket was made in it")
	}
	expect.List(t, sockets.running(""), nil, "… would be asked")
}

// A link in the place of the lock makes no file, and a pipe is not waited for.
func TestLockThatIsNoFile(t *testing.T) {
	sockets := Sockets{filepath.Join(t.TempDir(), "run"), "x."}
	expect.OK(t, sockets.open())
	for _, put := range []func(path string) error{
		func(path string) error { return os.Symlink("new", path) },
		func(path string) error { return syscall.Mkfifo(path, 0o600) },
	} {
		expect.OK(t, put(sockets.lockFile()))
		if _, err := sockets.lock(t.Context()); !errors.Is(err, safefile.ErrIrregular) {
			t.Errorf("the lock: %v", err)
		}
		expect.OK(t, os.Remove(sockets.lockFile()))
	}
	if _, err := os.Lstat(filepath.Join(sockets.dir, "new")); err == nil {
		t.Error("a file was made through the link")
	}
}
