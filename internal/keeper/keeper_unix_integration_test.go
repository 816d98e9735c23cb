//go:build unix

package keeper

import (
	"bufio"
	"bytes"
	"encoding/gob"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/layer"
)

// The test binary plays the guard process.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "guard" {
		Run(os.Stdin)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// A link that the router does not read delays no other server, and loses no report.
func TestFullLink(t *testing.T) {
	layer.Integration(t)
	g := startGuard(t)
	full := newTestLink(t)
	before := full.fill(t)
	g.start(t, 1, full, "exec sleep 600")
	g.startAndKill(t, 2)
	full.discard(t, before)
	started := full.next(t)
	if started.Kind != Started {
		t.Fatal("the start of the first server is not reported")
	}
	pid := started.Value

	before = full.fill(t)
	syscall.Kill(pid, syscall.SIGKILL)
	g.startAndKill(t, 3)
	full.discard(t, before)
	full.wantEnd(t)
}

// The router's mark may come again while the descendants of a server are killed. With the race
// detector, the test fails if the mark is not guarded.
func TestMarkComesAgain(t *testing.T) {
	layer.Integration(t)
	g := startGuard(t)
	for number := range int64(5) {
		l := newTestLink(t)
		g.start(t, number, l, "sleep 600 & exec sleep 600")
		pid := l.next(t).Value
		g.send(t, Order{Mark: "of-this-test-" + strconv.Itoa(os.Getpid())}) // other runs of this test go on
		syscall.Kill(pid, syscall.SIGKILL)
		l.wantEnd(t)
	}
}

// A testGuard is a guard process and the router's end of its socket.
type testGuard struct{ *net.UnixConn }

// startGuard starts a guard process. It ends with the test.
func startGuard(t *testing.T) testGuard {
	self, err := os.Executable()
	expect.OK(t, err)
	router, theirs := socketpair(t)
	var said bytes.Buffer
	guard := exec.Command(self, "guard")
	guard.Stdin, guard.Stderr = theirs, &said
	expect.OK(t, guard.Start())
	theirs.Close()
	g := testGuard{unixConn(t, router)}
	router.Close()
	t.Cleanup(func() {
		g.Close() // at which the guard process ends
		if err := guard.Wait(); err != nil {
			t.Errorf("%v\n%s", err, said.String())
		}
	})
	g.send(t, Order{Mark: "of-this-test-" + strconv.Itoa(os.Getpid())}) // other runs of this test go on
	return g
}

func (g testGuard) send(t *testing.T, o Order, files ...*os.File) {
	t.Helper()
	expect.OK(t, Send(g.UnixConn, o, files...))
}

// start has the guard process start a server that is a script of sh.
func (g testGuard) start(t *testing.T, number int64, l *testLink, script string) {
	t.Helper()
	g.startClient(t, number, l, script, nil)
}

// startClient is start for the client of a container.
func (g testGuard) startClient(t *testing.T, number int64, l *testLink, script string, c *Container) {
	t.Helper()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	expect.OK(t, err)
	defer null.Close()
	g.send(t, Order{Start: &Start{Path: "/bin/sh", Args: []string{"sh", "-c", script}, Env: os.Environ(), Dir: "/", Number: number, Container: c}}, null, null, null, l.theirs)
}

// startAndKill has the guard process start a server and kill it.
func (g testGuard) startAndKill(t *testing.T, number int64) {
	t.Helper()
	l := newTestLink(t)
	g.start(t, number, l, "exec sleep 600")
	if l.next(t).Kind != Started {
		t.Fatal("the start is not reported")
	}
	_, err := l.ours.Write([]byte{LinkKill})
	expect.OK(t, err)
	l.wantEnd(t)
}

// A testLink is both ends of a server's link.
type testLink struct {
	ours, theirs *os.File
	buffered     *bufio.Reader
	reports      *gob.Decoder
}

func newTestLink(t *testing.T) *testLink {
	ours, theirs := socketpair(t)
	buffered := bufio.NewReader(ours)
	return &testLink{ours, theirs, buffered, gob.NewDecoder(buffered)}
}

// fill makes the guard's end full: no report has room. It returns how many bytes it wrote.
func (l *testLink) fill(t *testing.T) (n int) {
	t.Helper()
	fd := int(l.theirs.Fd())
	expect.OK(t, syscall.SetNonblock(fd, true))
	for {
		switch _, err := syscall.Write(fd, []byte{'x'}); {
		case err == nil:
			n++
		case errors.Is(err, syscall.EAGAIN):
			return n
		case !errors.Is(err, syscall.EINTR):
			t.Fatal(err)
		}
	}
}

// discard reads what fill wrote.
func (l *testLink) discard(t *testing.T, n int) {
	t.Helper()
	_, err := io.CopyN(io.Discard, l.buffered, int64(n))
	expect.OK(t, err)
}

func (l *testLink) next(t *testing.T) Report {
	t.Helper()
	var r Report
	expect.OK(t, l.reports.Decode(&r))
	return r
}

// wantEnd checks that the last reports are that the server has ended, and what it left.
func (l *testLink) wantEnd(t *testing.T) {
	t.Helper()
	if r := l.next(t); r.Kind != Exited || !syscall.WaitStatus(r.Value).Signaled() {
		t.Fatalf("the report is %+v, want that it has ended", r)
	}
	if r := l.next(t); r.Kind != Gone {
		t.Fatalf("the report is %+v, want that all is gone", r)
	}
}

// socketpair returns a connected pair, whose first end gives up reading after a minute.
func socketpair(t *testing.T) (ours, theirs *os.File) {
	t.Helper()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	expect.OK(t, err)
	for _, fd := range fds {
		syscall.CloseOnExec(fd)
	}
	expect.OK(t, syscall.SetNonblock(fds[0], true))
	ours, theirs = os.NewFile(uintptr(fds[0]), "ours"), os.NewFile(uintptr(fds[1]), "theirs")
	t.Cleanup(func() { ours.Close(); theirs.Close() })
	expect.OK(t, ours.SetReadDeadline(time.Now().Add(time.Minute)))
	return ours, theirs
}
