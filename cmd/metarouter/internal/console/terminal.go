package console

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/mcp-metarouter/metarouter/internal/plain"
	"github.com/mcp-metarouter/metarouter/internal/signal"
)

// frameEvery is how often the live line is looked at. It is written if it is
// another one than before.
const frameEvery = 125 * time.Millisecond

// A Screen is a terminal to write to. It may be used by many goroutines at once.
type Screen struct {
	out    io.Writer
	size   func() (width, height int, err error)
	colour bool

	mu   sync.Mutex // guards line
	line string     // the live line that is drawn, the cursor at its end; "" for none
}

// Open returns the screen that the stream is. ok is false if it is no terminal, or one
// that can only print lines (TERM=dumb).
func Open(stream any, getenv func(string) string) (s *Screen, ok bool) {
	f, ok := stream.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) || !canDraw(f, getenv) {
		return nil, false
	}
	return &Screen{
		out:    f,
		size:   func() (int, int, error) { return term.GetSize(int(f.Fd())) },
		colour: Colours(getenv),
	}, true
}

// Colours reports whether a terminal is to be written to in colours: "when [NO_COLOR
// is] present and not an empty string (regardless of its value)" it is not
// (https://no-color.org).
func Colours(getenv func(string) string) bool {
	return getenv("NO_COLOR") == "" && getenv("TERM") != "dumb"
}

// Colours reports whether the screen is to be written to in colours.
func (s *Screen) Colours() bool { return s.colour }

// Width returns how many columns the screen has.
func (s *Screen) Width() int {
	width, _, err := s.size()
	if err != nil || width < 1 {
		return 80
	}
	return width
}

// Write writes the text p, above the live line if there is one: whole lines then. It is cleaned
// as package plain does, but for colours.
func (s *Screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := plain.TextWith(string(p), func(sequence string) bool { return s.colour && IsPaint(sequence) })
	return len(p), s.draw(text, s.line)
}

// draw writes a text and then the live line, in place of the one that is there.
func (s *Screen) draw(text, line string) error {
	if s.line != "" {
		text = "\r\x1b[K" + text
	}
	if s.line = line; text+line == "" {
		return nil
	}
	_, err := io.WriteString(s.out, text+line)
	return err
}

// Live runs work. If that takes longer than delay and stderr is a [Screen], it shows meanwhile the
// line of frame, whenever that returns something else, cut to the width. At the end nothing of it is
// left. One work at a time can be shown.
func Live(stderr io.Writer, work func(), delay time.Duration, frame func(now time.Time) string) {
	s, ok := stderr.(*Screen)
	if !ok {
		work()
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		work()
	}()
	if signal.Within(done, delay) {
		return
	}
	tick := time.NewTicker(frameEvery)
	defer tick.Stop()
	for over := false; !over; {
		line := ""
		if over = signal.IsClosed(done); !over { // the last column stays free, since terminals differ in where the cursor is after it
			line = Cut(frame(time.Now()), max(1, s.Width()-1))
		}
		s.mu.Lock()
		if line != s.line {
			s.draw("", line)
		}
		s.mu.Unlock()
		select {
		case <-done:
		case <-tick.C:
		}
	}
}

// spinner turns once a second.
var spinner = []string{"⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧"}

// Spinner returns the sign for work that is under way.
func Spinner(now time.Time) string {
	return spinner[now.UnixMilli()/frameEvery.Milliseconds()%int64(len(spinner))]
}

// Elapsed prints how long something has taken, as "7 s" or "2:05".
func Elapsed(d time.Duration) string {
	seconds := int(max(0, d).Seconds())
	if seconds < 100 {
		return fmt.Sprintf("%d s", seconds)
	}
	return fmt.Sprintf("%d:%02d", seconds/60, seconds%60)
}

// Until says when a time is, for one that is near.
func Until(at, now time.Time) string {
	if !at.After(now) {
		return "until " + at.Local().Format("2006-01-02 15:04") + ", which is over"
	}
	return fmt.Sprintf("until %s (%s from now)", at.Local().Format("2006-01-02 15:04"), Elapsed(at.Sub(now)))
}

// Lines joins lines as they are printed where nothing is live.
func Lines(lines []string) string {
	if len(lines) == 0 {
		return ""
	}
	return strings.Join(lines, "\n") + "\n"
}
