package stdio

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/coroutine"
	"github.com/mcp-metarouter/metarouter/internal/session"
)

// A queue keeps the order, and ends with what it writes to.
func TestQueue(t *testing.T) {
	in, out := io.Pipe()
	failed := make(chan error, 1)
	q := newQueue(out, noJournal{}, func(err error) { failed <- err })
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
	q = newQueue(brokenWriter{broken}, noJournal{}, func(err error) { failed <- err })
	q.send([]byte("x"))
	if err := <-failed; err != broken {
		t.Errorf("failed with %v", err)
	}
	if err := q.send([]byte("x")); err != broken {
		t.Errorf("send after a failure: %v", err)
	}
}

type brokenWriter struct{ err error }

func (w brokenWriter) Write([]byte) (int, error) { return 0, w.err }

// A coroutine writes in place where that does not block, and else holds up nobody while it writes.
func TestQueueInPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in, written := io.Pipe() // without a buffer
		out := &roomy{Writer: written}
		q := newQueue(out, noJournal{}, func(err error) { t.Error(err) })
		var running coroutine.Pool
		put := func(text string, size int) {
			running.Start(func(c *coroutine.Coroutine) {
				message := append(bytes.Repeat([]byte(text), size), '\n')
				q.put(outgoing{message: message, slot: NoSlot}, putOptions{patient: true, mayWrite: true, coroutine: c})
			})
		}
		var all bytes.Buffer
		read := make(chan error)
		put("a", 1) // returns, though nobody reads
		put("b", 1)
		synctest.Wait()
		go func() {
			_, err := all.ReadFrom(in)
			read <- err
		}()
		synctest.Wait()
		out.room = true
		put("c", 1)
		if q.writing {
			t.Error("it was not written in place")
		}
		synctest.Wait()
		if got := all.String(); !strings.HasSuffix(got, "c\n") {
			t.Errorf("after a write in place: %q", got)
		}
		put("d", 2*maxInPlace) // too long for the room
		running.Close()
		q.close()
		written.Close()
		if err, want := <-read, "a\nb\nc\n"+strings.Repeat("d", 2*maxInPlace)+"\n"; err != nil || all.String() != want {
			t.Errorf("read %q, %v", all.String(), err)
		}
	})
}

// A roomy writer may have room.
type roomy struct {
	io.Writer
	room bool
}

func (w *roomy) HasRoom() bool { return w.room }

// A call whose answer waits for a second says what it waits for.
func TestQueueNotesDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in, out := io.Pipe()
		q := newQueue(out, noJournal{}, func(err error) { t.Error(err) })
		late := make(chan string, 10)
		for i := range 2 {
			trail := &session.Trail{Late: func(waitsFor string) { late <- fmt.Sprint(i, ": ", waitsFor) }}
			trail.Answered("the call to go on")
			q.put(outgoing{message: []byte("x\n"), slot: NoSlot, trail: trail}, putOptions{patient: true})
			synctest.Wait()
		}
		got := []string{<-late, <-late}
		if slices.Sort(got); !slices.Equal(got, []string{"0: the client to read it", "1: earlier messages to be written"}) {
			t.Errorf("late are %q", got)
		}
		go io.Copy(io.Discard, in)
		trail := &session.Trail{Late: func(waitsFor string) { t.Error(waitsFor) }}
		trail.Answered("the call to go on")
		q.put(outgoing{message: []byte("x\n"), slot: NoSlot, trail: trail}, putOptions{patient: true, mayWrite: true})
		time.Sleep(time.Minute)
		q.close()
		out.Close()
	})
}
