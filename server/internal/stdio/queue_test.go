package stdio

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/session"
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

// A call whose answer waits for a second says what it waits for.
func TestQueueNotesDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in, out := io.Pipe()
		q := newQueue(out, func(err error) { t.Error(err) })
		late := make(chan string, 10)
		for i := range 2 {
			trail := &session.Trail{Late: func(waitsFor string) { late <- fmt.Sprint(i, ": ", waitsFor) }}
			trail.Answered("the call to go on")
			q.put(outgoing{[]byte("x\n"), trail}, putOptions{patient: true})
			synctest.Wait()
		}
		got := []string{<-late, <-late}
		if slices.Sort(got); !slices.Equal(got, []string{"0: the client to read it", "1: earlier messages to be written"}) {
			t.Errorf("late are %q", got)
		}
		go io.Copy(io.Discard, in)
		trail := &session.Trail{Late: func(waitsFor string) { t.Error(waitsFor) }}
		trail.Answered("the call to go on")
		q.put(outgoing{[]byte("x\n"), trail}, putOptions{patient: true, mayWrite: true})
		time.Sleep(time.Minute)
		q.close()
		out.Close()
	})
}
