package daemon

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

// asStranger calls do as another user. Only root may.
func asStranger(t *testing.T, do func()) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	become := func(user uintptr) {
		if _, _, errno := syscall.RawSyscall(syscall.SYS_SETRESUID, user, user, 0); errno != 0 { // of this thread alone
			t.Fatal(errno)
		}
	}
	become(65534)
	defer become(0)
	do()
}

// Even if the modes of files let another user in, our router does not serve that user, and
// that user's router does not serve us.
func TestStranger(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can play another user")
	}
	dir, err := os.MkdirTemp("/tmp", "stranger")
	expect.OK(t, err)
	defer os.RemoveAll(dir)
	expect.OK(t, os.Chmod(dir, 0o777))
	ours, theirs := filepath.Join(dir, "ours"), filepath.Join(dir, "theirs")
	l, err := net.Listen("unix", ours)
	expect.OK(t, err)
	expect.OK(t, os.Chmod(ours, 0o777))
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() {
		served <- serve(ctx, l, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello") }))
	}()
	asStranger(t, func() {
		c, err := net.Dial("unix", ours)
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		io.WriteString(c, "GET / HTTP/1.0\r\n\r\n")
		if got, _ := io.ReadAll(c); len(got) > 0 {
			t.Errorf("another user's process is answered %q", got)
		}
	})
	cancel()
	expect.OK(t, <-served)
	var foreign net.Listener
	asStranger(t, func() { foreign, err = net.Listen("unix", theirs) })
	expect.OK(t, err)
	defer foreign.Close()
	if c, err := dial(t.Context(), theirs); err == nil {
		c.Close()
		t.Error("another user's router is asked")
	}
}
