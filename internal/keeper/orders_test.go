//go:build unix

package keeper

import (
	"errors"
	"net"
	"os"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

// Orders arrive as they were sent, each with its files.
func TestOrders(t *testing.T) {
	testContainer := &Container{File: "/tmp/x/id", Remove: []string{"/tmp/x/id", "/tmp/x"}, Path: "/bin/docker", Dir: "/home", Env: []string{"A=1"}, Commands: [][]string{{"stop", "-t", "2"}, {"rm"}}}
	orders := []Order{
		{Mark: "0123"},
		{Mark: "0123", Remove: []string{"/tmp/a/b c", "/tmp/a"}},
		{Start: &Start{Path: "/bin/x", Args: []string{"x", "", "ü\n", "no UTF-8: \xff"}, Env: []string{"A=1", "B="}, Dir: "/", Number: 1 << 40, KeepStrays: true}},
		{Start: &Start{Path: "/bin/x", Env: []string{strings.Repeat("A", 1<<20)}}},
		{Start: &Start{Path: "/bin/docker", Args: []string{"docker", "run"}, Env: []string{"A=1"}, Dir: "/", Number: 1, Container: testContainer}},
		{Watch: 42},
		{Watch: 42, Stop: testContainer},
		{Unwatch: 43},
		{Done: true},
	}
	router, guard := socketpair(t)
	ours, theirs := unixConn(t, router), unixConn(t, guard)
	go func() {
		for i, o := range orders {
			if err := Send(ours, o, []*os.File{os.Stdin, os.Stderr}[:i%3%2*2]...); err != nil {
				t.Error(err)
			}
		}
		ours.Close()
		router.Close()
	}()
	for i, want := range orders {
		got, files, err := readOrder(theirs)
		if err != nil || !reflect.DeepEqual(got, want) || len(files) != i%3%2*2 {
			t.Errorf("%+v with files %v, %v; want %+v", got, files, err, want)
		}
		for _, fd := range files {
			syscall.Close(fd)
		}
	}
	if _, _, err := readOrder(theirs); err == nil {
		t.Error("an order came after the end")
	}
}

func TestLongOrder(t *testing.T) {
	router, guard := socketpair(t)
	ours, theirs := unixConn(t, router), unixConn(t, guard)
	long := Order{Mark: strings.Repeat("m", maxOrder)}
	if err := Send(ours, long); !errors.Is(err, syscall.E2BIG) {
		t.Errorf("an order of any length is sent: %v", err)
	}
	go func() { // the length of a message of 32 MiB and more, and its beginning
		ours.Write([]byte{0xfc, 0x03, 0, 0, 0})
		ours.Write(make([]byte, maxOrder))
		ours.Close()
		router.Close()
	}()
	if _, _, err := readOrder(theirs); err == nil || !strings.Contains(err.Error(), "too long") {
		t.Errorf("an order of any length is read: %v", err)
	}
}

// A string that no program can be started with is refused as the system refuses it.
func TestStartWithZero(t *testing.T) {
	g := startGuard(t)
	for _, s := range []Start{{Path: "a\x00b"}, {Path: "/bin/sh", Args: []string{"\x00"}}, {Path: "/bin/sh", Env: []string{"a=\x00"}}, {Path: "/bin/sh", Dir: "\x00"}} {
		l := newTestLink(t)
		g.send(t, Order{Start: &s}, os.Stdin, os.Stderr, os.Stderr, l.theirs)
		expect.Equal(t, l.next(t), Report{NotStarted, int(syscall.EINVAL)}, "%v", s)
	}
}

func unixConn(t *testing.T, f *os.File) *net.UnixConn {
	t.Helper()
	conn, err := net.FileConn(f)
	expect.OK(t, err)
	t.Cleanup(func() { conn.Close() })
	return conn.(*net.UnixConn)
}
