//go:build unix

package daemon

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
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

// A folder may have any name, such as one that is a pattern.
func TestSocketInAnyFolder(t *testing.T) {
	place := Place{filepath.Join(t.TempDir(), "[a]*"), "x."}
	l, err := place.listen(shared)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if got := place.sockets(shared); len(got) != 1 || got[0] != l.Addr().String() {
		t.Errorf("%q; want %s", got, l.Addr())
	}
}

// The newest router is asked first, whatever its socket's name.
func TestNewestSocketFirst(t *testing.T) {
	place := Place{filepath.Join(t.TempDir(), "run"), "x."}
	var paths []string
	for i := range 5 {
		l, err := place.listen(shared)
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
	if got := place.sockets(shared); !slices.Equal(got, paths) {
		t.Errorf("%q; want %q", got, paths)
	}
}

// What is in a folder that others may have made is neither listened on nor asked.
func TestFolderOfAnother(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can give a folder away")
	}
	place := Place{filepath.Join(t.TempDir(), "run"), "x."}
	l, err := place.listen("")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := os.Chown(place.dir, 1, 1); err != nil {
		t.Fatal(err)
	}
	if l, err := place.listen(""); err == nil {
		l.Close()
		t.Error("a socket was made in it")
	}
	if got := place.sockets(""); len(got) > 0 {
		t.Errorf("%q would be asked", got)
	}
}

// Memory that a client shares can't be taken from under the host, which would be
// killed when it touches it.
func TestMemoryStays(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has seals")
	}
	mem, f, err := NewMemory(1 << 16)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	defer unmap(mem)
	if f.Truncate(0) == nil {
		t.Error("the memory was cut")
	}
	plain, err := os.Create(filepath.Join(t.TempDir(), "f"))
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	plain.Truncate(1 << 16)
	if mem, err := mapped(plain, 1<<16); err == nil {
		unmap(mem)
		t.Error("a file was mapped that can be cut")
	}
}

// A client that was told to end waits for no lock.
func TestLockGivesUp(t *testing.T) {
	place := Place{filepath.Join(t.TempDir(), "run"), "x."}
	unlock, err := place.lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	began := time.Now()
	if _, err := place.lock(ctx); err == nil || time.Since(began) > lockWait/2 {
		t.Errorf("%v after %v", err, time.Since(began))
	}
}
