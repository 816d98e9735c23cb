//go:build unix

package keeper

import (
	"errors"
	"os"
	"reflect"
	"syscall"
	"testing"
)

// An order arrives as it was sent, with its files.
func TestOrders(t *testing.T) {
	testContainer := &Container{File: "/tmp/x/id", Remove: []string{"/tmp/x/id", "/tmp/x"}, Path: "/bin/docker", Dir: "/home", Env: []string{"A=1"}, Commands: [][]string{{"stop", "-t", "2"}, {"rm"}}}
	for _, want := range []Order{
		{Mark: "0123"},
		{Mark: "0123", Remove: []string{"/tmp/a/b c", "/tmp/a"}},
		{Start: &Start{Path: "/bin/x", Args: []string{"x", "", "ü\n"}, Env: []string{"A=1", "B="}, Dir: "/", Number: 1 << 40, KeepStrays: true}},
		{Start: &Start{Path: "/bin/x"}},
		{Start: &Start{Path: "/bin/docker", Args: []string{"docker", "run"}, Env: []string{"A=1"}, Dir: "/", Number: 1, Container: testContainer}},
		{Watch: 42},
		{Watch: 42, Stop: testContainer},
		{Unwatch: 43},
		{Done: true},
	} {
		encoded, err := want.Encode()
		if err != nil {
			t.Fatal(err)
		}
		fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := syscall.Sendmsg(fds[1], encoded[:3], syscall.UnixRights(int(os.Stdin.Fd()), int(os.Stderr.Fd())), nil, 0); err != nil {
			t.Fatal(err)
		}
		if _, err := syscall.Write(fds[1], encoded[3:]); err != nil {
			t.Fatal(err)
		}
		syscall.Close(fds[1])
		got, files, err := socket(fds[0]).readOrder()
		if want.Start != nil && want.Start.Args == nil {
			want.Start.Args, want.Start.Env = []string{}, []string{}
		}
		if want.Mark != "" && want.Remove == nil {
			want.Remove = []string{}
		}
		if err != nil || !reflect.DeepEqual(got, want) || len(files) != 2 {
			t.Errorf("%+v with files %v, %v; want %+v", got, files, err, want)
		}
		for _, fd := range files {
			syscall.Close(fd)
		}
		if _, _, err := socket(fds[0]).readOrder(); err == nil {
			t.Error("an order came after the end")
		}
		syscall.Close(fds[0])
	}
}

// A string that no program can be started with is refused as the system refuses it.
func TestOrderWithZero(t *testing.T) {
	for _, s := range []Start{{Path: "a\x00b"}, {Args: []string{"\x00"}}, {Env: []string{"a=\x00"}}, {Dir: "\x00"}} {
		if _, err := (Order{Start: &s}).Encode(); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("%+v: %v", s, err)
		}
	}
	if _, err := (Order{Mark: string(make([]byte, maxOrder))}).Encode(); err == nil {
		t.Error("an order of any length is sent")
	}
}

func TestReports(t *testing.T) {
	for _, want := range []Report{{Started, 7}, {NotStarted, 2}, {Exited, 256}, {Exited, 0}, {Kind: Gone}} {
		if got, err := ParseReport(want.line()); err != nil || got != want {
			t.Errorf("%+v, %v; want %+v", got, err, want)
		}
	}
	for _, line := range []string{"", "\n", "pid\n", "pid x\n", "other 1\n"} {
		if got, err := ParseReport([]byte(line)); err == nil {
			t.Errorf("%q is the report %+v", line, got)
		}
	}
}

// What was encoded and parsed is encoded again as the same bytes.
func FuzzOrders(f *testing.F) {
	for _, o := range []Order{{Mark: "a", Remove: []string{"b"}}, {Start: &Start{Path: "p", Args: []string{"q"}, Env: []string{"r"}}}, {Watch: 3, Stop: &Container{File: "f", Commands: [][]string{{"stop"}}}}, {Done: true}} {
		encoded, _ := o.Encode()
		f.Add(encoded[LengthSize:])
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		o, err := parseOrder(body)
		if err != nil {
			return
		}
		encoded, err := o.Encode()
		if err != nil {
			t.Fatal(err)
		}
		again, err := parseOrder(encoded[LengthSize:])
		if err != nil || !reflect.DeepEqual(o, again) {
			t.Errorf("%+v, %v; want %+v", again, err, o)
		}
	})
}
