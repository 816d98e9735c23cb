package stdio

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

// A queue keeps the order, and ends with what it writes to.
func TestQueue(t *testing.T) {
	in, out := io.Pipe()
	failed := make(chan error, 1)
	q := newQueue(out, func(err error) { failed <- err })
	go func() {
		for i := range 100 {
			q.send(fmt.Appendf(nil, "%d\n", i))
		}
		q.close()
		out.Close()
	}()
	all, err := io.ReadAll(in)
	want := ""
	for i := range 100 {
		want += fmt.Sprintln(i)
	}
	if string(all) != want || err != nil {
		t.Errorf("read %q, %v", all, err)
	}
	if err := q.send([]byte("x")); err == nil {
		t.Error("a closed queue takes more")
	}
	broken := errors.New("broken")
	q = newQueue(brokenWriter{broken}, func(err error) { failed <- err })
	q.send([]byte("x"))
	expect.Equal(t, <-failed, broken, "failed with")
	expect.Equal(t, q.send([]byte("x")), broken, "send after a failure")
}

type brokenWriter struct{ err error }

func (w brokenWriter) Write([]byte) (int, error) { return 0, w.err }
