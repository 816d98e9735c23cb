package service

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/console"
	"github.com/mcp-metarouter/metarouter/internal/exposure"
	"github.com/mcp-metarouter/metarouter/internal/plain"
	"github.com/mcp-metarouter/metarouter/internal/prose"
	"github.com/mcp-metarouter/metarouter/internal/status"
)

const (
	// showAfter is how long servers must take to start before a terminal shows them.
	showAfter = 400 * time.Millisecond

	// showAskingAfter is the same for a running router that a command asks.
	showAskingAfter = time.Second
)

var colours = map[status.State]console.Colour{
	status.Starting: console.Yellow, status.Restarting: console.Yellow, status.Ready: console.Green, status.Idle: console.Plain,
	status.Failed: console.Red, status.NeedsAuth: console.Red, status.Misconfigured: console.Red,
	status.Disabled: console.Faint, status.Stopping: console.Faint, status.Stopped: console.Faint, status.Self: console.Faint,
}

// tally sums the servers up in a line, and counts those that do not work.
func tally(all []status.Server) (line string, failed int) {
	up, starting, wanted, tools := 0, 0, 0, 0
	for _, s := range all {
		tools += s.Tools
		switch s.State {
		case status.Ready, status.Idle:
			up++
		case status.Starting:
			starting++
		case status.Disabled, status.Self:
			continue
		default:
			failed++
		}
		wanted++
	}
	parts := []string{fmt.Sprintf("%d of %s ready", up, prose.Count(wanted, "server")), prose.Count(tools, "tool")}
	if starting > 0 {
		parts = append(parts, fmt.Sprintf("%d starting", starting))
	}
	if failed > 0 {
		parts = append(parts, fmt.Sprintf("%d not working", failed))
	}
	return strings.Join(parts, ", "), failed
}

// lineOf returns the line of one moment: it sums the servers up, says how long it has taken since began, and names
// those that are starting, with how long and what each waits for.
func lineOf(all []status.Server, began, now time.Time) string {
	sum, _ := tally(all)
	line, before := console.Spinner(now)+" "+sum+", "+console.Elapsed(now.Sub(began)), ": "
	for _, s := range all {
		if s.State == status.Starting {
			line, before = line+before+s.Name+" "+console.Elapsed(now.Sub(s.Since)), ", "
			if s.Doing != "" {
				line += " (" + s.Doing + ")"
			}
		}
	}
	return plain.Line(line)
}

// ServersTable returns the table of servers for a terminal with so many columns; 0 stands for any number.
func ServersTable(servers []exposure.ServerRow, columns int, coloured bool) []string {
	table := []console.Row{console.Titles("SERVER", "STATE", ">TOOLS", "?PROTOCOL", "?>PID", "?>RESTARTS", "NOTE")}
	for _, s := range servers {
		pid := ""
		if s.PID > 0 {
			pid = strconv.Itoa(s.PID)
		}
		row := console.Texts(s.Name, s.State, s.Tools, s.ProtocolVersion, pid, s.Restarts, cmp.Or(s.Problem, s.LastError))
		row[1].Colour, row[6].Colour = colours[status.State(s.State)], console.Faint
		table = append(table, row)
	}
	return console.Table(table, columns, 0, coloured)
}

// ShowServers runs wait. If stderr is a [console.Screen], it shows meanwhile how the router's servers start.
func ShowServers(stderr io.Writer, r interface{ Servers() []status.Server }, wait func()) {
	showWhile(stderr, showAfter, func(began, now time.Time) string { return lineOf(r.Servers(), began, now) }, wait)
}

// ShowAsking runs wait. If stderr is a [console.Screen], it shows meanwhile that a running
// router does the work.
func ShowAsking(stderr io.Writer, wait func()) {
	showWhile(stderr, showAskingAfter, func(began, now time.Time) string {
		return console.Spinner(now) + " asking the running router, " + console.Elapsed(now.Sub(began))
	}, wait)
}

// showWhile runs wait. If that takes longer than after, a terminal shows meanwhile a line.
func showWhile(stderr io.Writer, after time.Duration, line func(began, now time.Time) string, wait func()) {
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
	screen.Live(done, after, func(now time.Time) string { return line(began, now) })
	<-done
}

// ShowStart shows the servers until all have started or failed, and then sums them up in a
// line.
func ShowStart(ctx context.Context, stderr io.Writer, r *adapter.Router) {
	ShowServers(stderr, r, func() { r.Started(ctx) })
	if ctx.Err() == nil {
		line, failed := tally(r.Servers())
		if failed > 0 {
			line += "; 'metarouter doctor' says what to do"
		}
		fmt.Fprintln(stderr, line)
	}
}
