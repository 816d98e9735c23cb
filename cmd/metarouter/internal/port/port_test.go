package port

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// This test's own listener is found, and the next free port is another one.
func TestInUse(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	address := l.Addr().String()
	holder, used := InUse(t.Context(), address)
	if !used {
		t.Fatalf("nothing listens at %s", address)
	}
	ours, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if holder.PID != 0 && (holder.PID != os.Getpid() || !strings.Contains(holder.String(), filepath.Base(holder.Path))) {
		t.Errorf("it is %v, want %s", holder, ours)
	}
	if free := Next(t.Context(), address); free == address || !strings.HasPrefix(free, "127.0.0.1:") {
		t.Errorf("the next free address is %q", free)
	}
	l.Close()
	if holder, used := InUse(t.Context(), address); used {
		t.Errorf("%v still listens", holder)
	}
	if _, used := InUse(t.Context(), "nonsense"); used {
		t.Error("nonsense is in use")
	}
}
