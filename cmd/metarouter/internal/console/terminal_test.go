package console

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A display is the text on a terminal: it knows the few sequences that a Screen writes.
type display struct {
	mu            sync.Mutex
	width, height int
	rows          []string // all that ever was, the last height of them in sight
	at            int      // the row of the cursor
	writes        int
	t             *testing.T
}

func (d *display) Write(p []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.writes++
	text := string(p)
	for text != "" {
		switch {
		case strings.HasPrefix(text, "\x1b["):
			end := strings.IndexAny(text, "AJKm")
			var n int
			fmt.Sscanf(text[2:end], "%d", &n)
			switch text[end] {
			case 'A':
				if d.at -= n; d.at < max(0, len(d.rows)-d.height) {
					d.t.Errorf("the cursor goes %d up, out of sight", n)
				}
			case 'J':
				d.rows = append(d.rows[:d.at:d.at], "")
			}
			text = text[end+1:]
		case text[0] == '\r':
			text = text[1:] // the next text overwrites the row
		case text[0] == '\n':
			if d.at++; d.at == len(d.rows) {
				d.rows = append(d.rows, "")
			}
			text = text[1:]
		default:
			end := strings.IndexAny(text, "\x1b\r\n")
			if end < 0 {
				end = len(text)
			}
			d.rows[d.at], text = text[:end], text[end:] // lines are always written from their beginning
		}
	}
	return len(p), nil
}

func (d *display) shown() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return strings.Join(d.rows, "\n")
}

func (d *display) size() (int, int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.width, d.height, nil
}

func newDisplay(t *testing.T) (*display, *Screen) {
	d := &display{width: 40, height: 10, rows: []string{""}, t: t}
	return d, &Screen{out: d, size: d.size}
}

// Lines scroll by above the live ones, whole, and at the end the live ones are gone.
func TestLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, s := newDisplay(t)
		fmt.Fprintln(s, "before")
		done, over := make(chan struct{}), make(chan struct{})
		live := []string{"one", "two"}
		var mu sync.Mutex
		go func() {
			defer close(over)
			s.Live(done, time.Second, func(_ time.Time, width, height int) []string {
				if width != 39 || height != 9 {
					t.Errorf("room for %d × %d", width, height)
				}
				mu.Lock()
				defer mu.Unlock()
				return live
			})
		}()
		expect := func(want string) {
			t.Helper()
			synctest.Wait()
			if got := d.shown(); got != want {
				t.Errorf("shown:\n%s\nwant:\n%s", got, want)
			}
		}
		expect("before\n")
		time.Sleep(time.Second)
		expect("before\none\ntwo\n")

		writes := d.writes
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if d.writes != writes {
			t.Error("it writes though nothing has changed")
		}

		fmt.Fprint(s, "half a ")
		expect("before\none\ntwo\n")
		fmt.Fprint(s, "line\nand a whole one\nand")
		expect("before\nhalf a line\nand a whole one\none\ntwo\n")

		mu.Lock()
		live = []string{"three"}
		mu.Unlock()
		time.Sleep(frameEvery)
		expect("before\nhalf a line\nand a whole one\nthree\n")

		inner := make(chan struct{})
		go func() { // somebody else has nothing to show meanwhile
			defer close(inner)
			s.Live(done, 0, func(time.Time, int, int) []string { t.Error("shown twice"); return nil })
		}()
		synctest.Wait()
		close(done)
		<-over
		<-inner
		expect("before\nhalf a line\nand a whole one\nand")
		fmt.Fprintln(s, " after")
		if n := strings.Count(d.shown(), "three"); n != 0 {
			t.Error("something live is left")
		}
	})
}

// Work that ends before it is worth showing is not shown.
func TestLiveDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, s := newDisplay(t)
		done := make(chan struct{})
		time.AfterFunc(time.Second-1, func() { close(done) })
		s.Live(done, time.Second, func(time.Time, int, int) []string { t.Error("shown"); return nil })
		if d.writes != 0 {
			t.Errorf("%d writes", d.writes)
		}
	})
}

// Work that is over already, though the delay is too, shows nothing and takes nothing away.
func TestLiveTooLate(t *testing.T) {
	d, s := newDisplay(t)
	fmt.Fprint(s, "half a line")
	done := make(chan struct{})
	close(done)
	for range 50 { // which of the two is seen first is chance
		s.Live(done, -1, func(time.Time, int, int) []string { t.Error("shown"); return nil })
	}
	if d.shown() != "half a line" || d.writes != 1 {
		t.Errorf("%d writes, shown %q", d.writes, d.shown())
	}
}

// A terminal that is made narrower breaks the lines that are there; all of them go.
func TestResize(t *testing.T) {
	d, s := newDisplay(t)
	s.live = true
	s.show([]string{strings.Repeat("a", 35), "b"})
	d.width = 20
	d.rows = []string{strings.Repeat("a", 20), strings.Repeat("a", 15), "b", ""}
	d.at = 3
	s.show([]string{strings.Repeat("a", 19), "b"})
	if got, want := d.shown(), strings.Repeat("a", 19)+"\nb\n"; got != want {
		t.Errorf("shown:\n%s", got)
	}
}
