package progress

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/console"
)

const (
	// showAfter is how long servers must take to start before a terminal shows them.
	showAfter = 400 * time.Millisecond

	// showAskingAfter is the same for a running router that a command asks.
	showAskingAfter = time.Second
)

// A frame returns the lines that a terminal shows at one moment.
type frame func(began, now time.Time, width, height int, colours bool) []string

// ShowServers runs wait. If stderr is a [console.Screen], it shows meanwhile the state of
// the router's servers.
func ShowServers(stderr io.Writer, r interface{ Servers() []adapter.ServerInfo }, wait func()) {
	Show(stderr, func() []Row { return rowsOf(r.Servers()) }, wait)
}

// Show runs wait. If stderr is a [console.Screen], it shows meanwhile the rows.
func Show(stderr io.Writer, rows func() []Row, wait func()) {
	showWhile(stderr, showAfter, func(began, now time.Time, width, height int, colours bool) []string {
		return liveLines(rows(), began, now, width, height, colours)
	}, wait)
}

// ShowAsking runs wait. If stderr is a [console.Screen], it shows meanwhile that a running
// router does the work.
func ShowAsking(stderr io.Writer, wait func()) {
	showWhile(stderr, showAskingAfter, func(began, now time.Time, width, _ int, _ bool) []string {
		line := console.Spinner(now) + " asking the running router, " + console.Elapsed(now.Sub(began))
		return []string{console.Cut(line, width)}
	}, wait)
}

// showWhile runs wait. If that takes longer than after, a terminal shows meanwhile the
// lines of f.
func showWhile(stderr io.Writer, after time.Duration, f frame, wait func()) {
	screen, ok := stderr.(*console.Screen)
	if !ok {
		wait()
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		wait()
	}()
	began := time.Now()
	screen.Live(done, after, func(now time.Time, width, height int) []string {
		return f(began, now, width, height, screen.Colours())
	})
	<-done
}

// ShowStart shows the servers until all have started or failed, and then sums them up in a
// line.
func ShowStart(ctx context.Context, stderr io.Writer, r *adapter.Parts) {
	ShowServers(stderr, r, func() { r.Started(ctx) })
	if ctx.Err() == nil {
		line, failed := tally(rowsOf(r.Servers()))
		if failed > 0 {
			line += "; 'metarouter doctor' says what to do"
		}
		fmt.Fprintln(stderr, line)
	}
}
