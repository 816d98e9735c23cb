//go:build linux

package pipe

import (
	"bytes"
	"io"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// What goes through a stage arrives whole and in order, in a pipe and in a socket, also if
// its reader is slow.
func TestStage(t *testing.T) {
	for kind, open := range map[string]func() (*os.File, *os.File, error){
		"pipe": os.Pipe,
		"socket": func() (*os.File, *os.File, error) {
			fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
			return os.NewFile(uintptr(fds[0]), "one"), os.NewFile(uintptr(fds[1]), "other"), err
		},
	} {
		t.Run(kind, func(t *testing.T) {
			from, to, err := open()
			if err != nil {
				t.Fatal(err)
			}
			defer from.Close()
			end := Inherited(to)
			s, err := NewStage()
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			var want bytes.Buffer
			written := make(chan error, 1)
			go func() {
				defer to.Close()
				defer end.Close()
				for i := range 300 {
					p := bytes.Repeat([]byte{byte(i)}, 1+i*100)
					want.Write(p)
					if e, ok := s.Leads(end); !ok || !s.Put(p) {
						written <- io.ErrShortBuffer
						return
					} else if err := s.Move(e, len(p)); err != nil {
						written <- err
						return
					}
				}
				written <- nil
			}()
			got, err := io.ReadAll(from)
			if failed := <-written; failed != nil || err != nil || !bytes.Equal(got, want.Bytes()) {
				t.Errorf("%d bytes arrived, %v, %v", len(got), failed, err)
			}
			if s.Len() != 0 || len(s.Take()) != 0 {
				t.Error("the stage is not empty")
			}
		})
	}
}

// A stage whose target has gone says so.
func TestStageEnds(t *testing.T) {
	from, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	end := Inherited(to)
	defer to.Close()
	defer end.Close()
	from.Close()
	s, err := NewStage()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if s.Put([]byte("x")); s.Move(end, 1) == nil {
		t.Error("a write to a pipe without a reader succeeded")
	}
}
