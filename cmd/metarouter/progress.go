package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/internal/terminal"
	"github.com/mcp-metarouter/metarouter/server"
	"github.com/mcp-metarouter/metarouter/supervisor"
)

// showAfter is how long something has to take for its progress to be shown.
const showAfter = 400 * time.Millisecond

// A row is what is shown of a server.
type row struct {
	server.ServerRow
	since time.Time // when it came into its state; zero if unknown
	doing string    // what its start waits for
}

func rowsOf(all []adapter.ServerInfo) []row {
	rows := make([]row, len(all))
	for i, plain := range server.ServerRows(all) {
		rows[i] = row{plain, all[i].Since, all[i].Doing}
	}
	return rows
}

// waiting runs wait. On a terminal it shows meanwhile how the servers are.
func (a *app) waiting(r *adapter.Router, wait func()) {
	a.showing(wait, func() []row { return rowsOf(r.Servers()) })
}

// showing is waiting for whoever knows the rows.
func (a *app) showing(wait func(), rows func() []row) {
	a.live(wait, showAfter, func(began, now time.Time, width, height int, colours bool) []string {
		return frame(rows(), began, now, width, height, colours)
	})
}

// whileAsking runs wait, while which a running router does our work.
func (a *app) whileAsking(wait func()) {
	a.live(wait, time.Second, func(began, now time.Time, width, _ int, _ bool) []string {
		line := terminal.Spinner(now) + " asking the running router, " + terminal.Elapsed(now.Sub(began))
		return []string{terminal.Cut(line, width)}
	})
}

// live runs wait. If that takes longer than after, a terminal shows meanwhile what frame
// returns.
func (a *app) live(wait func(), after time.Duration, frame func(began, now time.Time, width, height int, colours bool) []string) {
	screen, ok := a.stderr.(*terminal.Screen)
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
		return frame(began, now, width, height, screen.Colours())
	})
	<-done
}

// untilStarted shows how the servers are until none is starting, and then says in a
// line how they are.
func (a *app) untilStarted(ctx context.Context, r *adapter.Router) {
	a.waiting(r, func() { r.Started(ctx) })
	if ctx.Err() == nil {
		line, failed := tally(rowsOf(r.Servers()))
		if failed > 0 {
			line += "; 'metarouter doctor' says what to do"
		}
		fmt.Fprintln(a.stderr, line)
	}
}

// urgency orders servers where there is no room for all: those that something is to
// be seen of come first.
func urgency(s row) int {
	switch supervisor.State(s.State) {
	case supervisor.Starting:
		return 0
	case supervisor.Failed, supervisor.NeedsAuth, supervisor.Misconfigured, supervisor.Restarting:
		return 1
	}
	return 2
}

// frame is what is shown at one moment: a row for each server, and one that sums up,
// which is all where there is room for no more.
func frame(rows []row, began, now time.Time, width, height int, colour bool) []string {
	if len(rows) > height-1 {
		rows = slices.SortedStableFunc(slices.Values(rows), func(a, b row) int { return cmp.Compare(urgency(a), urgency(b)) })
	}
	var table []terminal.Row
	for _, s := range rows {
		table = append(table, liveRow(s, now))
	}
	line, _ := tally(rows)
	var lines []string
	if height > 1 {
		lines = terminal.Table(table, width, height-1, colour)
	}
	return append(lines, terminal.Cut(line+", "+terminal.Elapsed(now.Sub(began)), width))
}

func liveRow(s row, now time.Time) terminal.Row {
	colour := colourOf(s.State)
	mark, tools, took, says := markOf(s.State), "", "", ""
	switch supervisor.State(s.State) {
	case supervisor.Starting, supervisor.Restarting:
		mark, says = terminal.Spinner(now), s.doing
		if !s.since.IsZero() {
			took = terminal.Elapsed(now.Sub(s.since))
		}
		if says == "" {
			says = s.LastError
		}
	case supervisor.Ready, supervisor.Idle:
	default:
		says = s.LastError
	}
	if s.Tools > 0 {
		tools = counted(s.Tools, "tool")
	}
	return terminal.Row{{Text: mark, Colour: colour}, {Text: s.Name}, {Text: s.State, Colour: colour}, {Text: took, Right: true}, {Text: tools, Right: true}, {Text: says, Colour: terminal.Faint}}
}

func markOf(state string) string {
	switch supervisor.State(state) {
	case supervisor.Ready, supervisor.Idle:
		return "✓"
	case supervisor.Failed, supervisor.NeedsAuth, supervisor.Misconfigured:
		return "✗"
	case supervisor.Starting, supervisor.Restarting:
		return "…"
	}
	return "-"
}

func colourOf(state string) terminal.Colour {
	switch supervisor.State(state) {
	case supervisor.Ready:
		return terminal.Green
	case supervisor.Starting, supervisor.Restarting:
		return terminal.Yellow
	case supervisor.Failed, supervisor.NeedsAuth, supervisor.Misconfigured:
		return terminal.Red
	case supervisor.Idle:
		return terminal.Plain
	}
	return terminal.Faint
}

// tally says in a line how the servers are.
func tally(rows []row) (line string, failed int) {
	up, starting, wanted, tools := 0, 0, 0, 0
	for _, s := range rows {
		tools += s.Tools
		switch supervisor.State(s.State) {
		case supervisor.Ready, supervisor.Idle:
			up++
		case supervisor.Starting:
			starting++
		case supervisor.Disabled, supervisor.Self:
			continue
		default:
			failed++
		}
		wanted++
	}
	parts := []string{fmt.Sprintf("%d of %d servers ready", up, wanted), counted(tools, "tool")}
	if starting > 0 {
		parts = append(parts, fmt.Sprintf("%d starting", starting))
	}
	if failed > 0 {
		parts = append(parts, fmt.Sprintf("%d not working", failed))
	}
	return strings.Join(parts, ", "), failed
}

// paper returns how many columns there are on stdout and whether it is in colours: 0 is
// any number, where it is no terminal.
func (a *app) paper() (columns int, colours bool) {
	if screen, ok := terminal.Open(a.streams[1], os.Getenv); ok {
		return screen.Width(), screen.Colours()
	}
	return 0, false
}

// counted returns "1 tool" or "3 tools".
func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// roomForAll is how many columns a terminal needs for those of the servers' table that
// few look at.
const roomForAll = 70

// printRows prints the table of servers for a person at a terminal.
func (a *app) printRows(rows []row) error {
	width, colour := a.paper()
	title := func(text string, right bool) terminal.Cell {
		return terminal.Cell{Text: text, Colour: terminal.Bold, Right: right}
	}
	table := []terminal.Row{{title("SERVER", false), title("STATE", false), title("TOOLS", true)}}
	all := width == 0 || width >= roomForAll
	if all {
		table[0] = append(table[0], title("PROTOCOL", false), title("PID", true), title("RESTARTS", true))
	}
	table[0] = append(table[0], title("LAST ERROR", false))
	for _, s := range rows {
		line := terminal.Row{{Text: s.Name}, {Text: s.State, Colour: colourOf(s.State)}, {Text: strconv.Itoa(s.Tools), Right: true}}
		if all {
			pid := ""
			if s.PID > 0 {
				pid = strconv.Itoa(s.PID)
			}
			line = append(line, terminal.Cell{Text: s.ProtocolVersion}, terminal.Cell{Text: pid, Right: true}, terminal.Cell{Text: strconv.Itoa(s.Restarts), Right: true})
		}
		table = append(table, append(line, terminal.Cell{Text: s.LastError, Colour: terminal.Faint}))
	}
	_, err := fmt.Fprint(a.stdout, terminal.Lines(terminal.Table(table, width, 0, colour)))
	return err
}
