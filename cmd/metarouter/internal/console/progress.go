package console

import (
	"fmt"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/signal"
)

const (
	firstLine = time.Second     // after which work that goes on is shown
	nextLine  = 5 * time.Second // between two lines about it
)

// Progress runs work. While that goes on and stderr is a terminal, it prints now and then the line that says how far the work is.
func (c *Console) Progress(work func(), line func(now time.Time) string) {
	if !IsTerminal(c.Streams[2]) {
		work()
		return
	}
	each(work, func(now time.Time) { c.Note("%s", line(now)) })
}

// each runs work, and calls show now and then until it ends.
func each(work func(), show func(now time.Time)) {
	done := begin(work)
	for pause := firstLine; !signal.Within(done, pause); pause = nextLine {
		show(time.Now())
	}
}

// begin runs work in a goroutine, and returns a channel that is closed when it has ended.
func begin(work func()) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		work()
	}()
	return done
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
