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
	mu     sync.Mutex
	text   string
	writes int
}

func (d *display) Write(p []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.writes++
	for i, part := range strings.Split(string(p), "\r\x1b[K") {
		if i > 0 {
			d.text = d.text[:strings.LastIndexByte(d.text, '\n')+1]
		}
		d.text += part
	}
	return len(p), nil
}

func (d *display) shown() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.text
}

func newDisplay() (*display, *Screen) {
	d := new(display)
	return d, &Screen{out: d, size: func() (int, int, error) { return 40, 10, nil }}
}

// Lines scroll by above the live one, whole, and at the end the live one is gone.
func TestLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, s := newDisplay()
		fmt.Fprintln(s, "before")
		done, over := make(chan struct{}), make(chan struct{})
		live := strings.Repeat("x", 50)
		var mu sync.Mutex
		go func() {
			defer close(over)
			Live(s, func() { <-done }, time.Second, func(time.Time) string {
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
		cut := strings.Repeat("x", 38) + "…"
		time.Sleep(time.Second)
		expect("before\n" + cut)

		writes := d.writes
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if d.writes != writes {
			t.Error("it writes though nothing has changed")
		}

		fmt.Fprint(s, "one line\nand another\n")
		expect("before\none line\nand another\n" + cut)

		mu.Lock()
		live = "three"
		mu.Unlock()
		time.Sleep(frameEvery)
		expect("before\none line\nand another\nthree")

		close(done)
		<-over
		expect("before\none line\nand another\n")
		fmt.Fprintln(s, "after")
		if n := strings.Count(d.shown(), "three"); n != 0 {
			t.Error("something live is left")
		}
	})
}

// Work that ends before it is worth showing is not shown.
func TestLiveDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, s := newDisplay()
		Live(s, func() { time.Sleep(time.Second - 1) }, time.Second, func(time.Time) string { t.Error("shown"); return "" })
		if d.writes != 0 {
			t.Errorf("%d writes", d.writes)
		}
	})
}
