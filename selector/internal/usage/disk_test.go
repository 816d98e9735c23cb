//go:build unix

package usage

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// While the disk does not answer, the store does.
func TestSlowDisk(t *testing.T) {
	s := open(t, t.TempDir())
	call(s, "a", "send mail", "x:y", time.Now())
	if err := os.MkdirAll(filepath.Dir(s.path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(s.path, 0o600); err != nil { // whoever opens it waits for the other end
		t.Skip(err)
	}
	saved := make(chan error, 1)
	go func() { saved <- s.save() }()
	for range 1000 {
		call(s, "b", "send mail", "x:y", time.Now())
		want(t, s, "send mail", "x:y", time.Now(), 0.6)
		s.Tools()
	}
	select {
	case err := <-saved:
		t.Fatalf("the disk did not wait: %v", err)
	default:
	}
	end, err := os.OpenFile(s.path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	end.Close()
	if err := <-saved; err != nil {
		t.Error(err)
	}
}
