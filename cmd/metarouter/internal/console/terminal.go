package console

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/mcp-metarouter/metarouter/internal/plain"
	"github.com/mcp-metarouter/metarouter/internal/signal"
)

// frameEvery is how often live lines are looked at. They are written if they are
// others than before.
const frameEvery = 125 * time.Millisecond

// A Screen is a terminal to write to. It may be used by many goroutines at once.
type Screen struct {
	out    io.Writer
	size   func() (width, height int, err error)
	colour bool

	// mu guards the fields below.
	mu      sync.Mutex
	live    bool
	lines   []string // that are drawn, the cursor in the row below them
	width   int      // of the terminal when they were
	partial []byte   // of a line, which waits for its end while live lines are shown
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
	width, _ := s.bounds()
	return width
}

func (s *Screen) bounds() (width, height int) {
	width, height, err := s.size()
	if err != nil || width < 1 || height < 1 {
		return 80, 24
	}
	return width, height
}

// Write writes the text p, above the live lines if there are any. It is cleaned as package
// plain does, but for colours.
func (s *Screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := plain.TextWith(string(p), func(sequence string) bool { return s.colour && IsPaint(sequence) })
	if !s.live {
		_, err := io.WriteString(s.out, text)
		return len(p), err
	}
	s.partial = append(s.partial, text...)
	end := bytes.LastIndexByte(s.partial, '\n') + 1
	if end == 0 {
		return len(p), nil
	}
	var b bytes.Buffer
	width, _ := s.bounds()
	s.erase(&b, width)
	b.Write(s.partial[:end])
	s.paint(&b, s.lines, width)
	s.partial = slices.Clone(s.partial[end:])
	if _, err := s.out.Write(b.Bytes()); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Live shows the lines of frame until done is closed: at first after delay, and then
// whenever it returns something else. width and height, at least 1, are the space that a frame may
// fill. At the end nothing of it is left.
func (s *Screen) Live(done <-chan struct{}, delay time.Duration, frame func(now time.Time, width, height int) []string) {
	select {
	case <-done:
		return
	case <-time.After(delay):
	}
	s.mu.Lock()
	taken := s.live
	s.live = true
	s.mu.Unlock()
	if taken { // by somebody who shows something already
		<-done
		return
	}
	defer s.clear()
	tick := time.NewTicker(frameEvery)
	defer tick.Stop()
	for !signal.IsClosed(done) { // which it may be since before the delay, or the tick
		width, height := s.bounds()
		// The last column stays free, since terminals differ in where the cursor is
		// after it, and the last row is the cursor's.
		s.show(frame(time.Now(), max(1, width-1), max(1, height-1)))
		select {
		case <-done:
		case <-tick.C:
		}
	}
}

// show draws the lines in place of those that are there.
func (s *Screen) show(lines []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	width, _ := s.bounds()
	if slices.Equal(lines, s.lines) && width == s.width {
		return
	}
	var b bytes.Buffer
	if width != s.width {
		s.erase(&b, width) // they may have been broken
	} else if n := len(s.lines); n > 0 {
		fmt.Fprintf(&b, "\x1b[%dA\r", n)
	}
	s.paint(&b, lines, width)
	s.lines = slices.Clone(lines)
	s.out.Write(b.Bytes())
}

// paint writes lines where the cursor is, over the present text.
func (s *Screen) paint(b *bytes.Buffer, lines []string, width int) {
	s.width = width
	for _, line := range lines {
		b.WriteString(line)
		b.WriteString("\x1b[K\n")
	}
	b.WriteString("\x1b[J")
}

// erase takes the drawn lines away, which a terminal that is narrower now has broken. If
// there are no live lines, the row of the cursor may hold the text of others.
func (s *Screen) erase(b *bytes.Buffer, width int) {
	rows := 0
	for _, line := range s.lines {
		rows += max(1, (Width(line)+width-1)/width)
	}
	if rows > 0 {
		fmt.Fprintf(b, "\x1b[%dA\r\x1b[J", rows)
	}
}

// clear takes the live lines away, and writes the unfinished line.
func (s *Screen) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b bytes.Buffer
	width, _ := s.bounds()
	s.erase(&b, width)
	b.Write(s.partial)
	s.live, s.lines, s.partial, s.width = false, nil, nil, 0
	if b.Len() > 0 {
		s.out.Write(b.Bytes())
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
