// Package progress shows how the servers of a router are, as lines of text: live lines
// while servers start, a line that sums them up, and a table. [Frame], [Tally] and [Table]
// are pure; [Show] and its variants show frames on a terminal while something runs.
package progress

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/terminal"
	"github.com/mcp-metarouter/metarouter/internal/prose"
	"github.com/mcp-metarouter/metarouter/internal/serverrow"
	"github.com/mcp-metarouter/metarouter/internal/status"
)

// A Row describes one server.
type Row struct {
	serverrow.Row
	Since time.Time // when the server came into its state; zero if unknown
	Doing string    // what its start waits for
}

// RowsOf returns the rows of a router's servers.
func RowsOf(all []adapter.ServerInfo) []Row {
	rows := make([]Row, len(all))
	for i, row := range serverrow.Of(all) {
		rows[i] = Row{row, all[i].Since, all[i].Doing}
	}
	return rows
}

// urgency orders servers where there is no room for all: servers that start come first,
// then servers that do not work.
func urgency(s Row) int {
	switch status.State(s.State) {
	case status.Starting:
		return 0
	case status.Failed, status.NeedsAuth, status.Misconfigured, status.Restarting:
		return 1
	}
	return 2
}

// Frame returns the live lines of one moment: a line for each server, and the last line
// sums up and says how long it has taken since began. It fills at most height lines of
// width columns; servers that are starting or do not work take precedence.
func Frame(rows []Row, began, now time.Time, width, height int, colour bool) []string {
	if len(rows) > height-1 {
		rows = slices.SortedStableFunc(slices.Values(rows), func(a, b Row) int { return cmp.Compare(urgency(a), urgency(b)) })
	}
	var table []terminal.Row
	for _, s := range rows {
		table = append(table, liveRow(s, now))
	}
	line, _ := Tally(rows)
	var lines []string
	if height > 1 {
		lines = terminal.Table(table, width, height-1, colour)
	}
	return append(lines, terminal.Cut(line+", "+terminal.Elapsed(now.Sub(began)), width))
}

func liveRow(s Row, now time.Time) terminal.Row {
	colour := colourOf(s.State)
	mark, tools, elapsed, text := markOf(s.State), "", "", ""
	switch status.State(s.State) {
	case status.Starting, status.Restarting:
		mark, text = terminal.Spinner(now), s.Doing
		if !s.Since.IsZero() {
			elapsed = terminal.Elapsed(now.Sub(s.Since))
		}
		if text == "" {
			text = s.LastError
		}
	case status.Ready, status.Idle:
	default:
		text = s.LastError
	}
	if s.Tools > 0 {
		tools = prose.Count(s.Tools, "tool")
	}
	return terminal.Row{{Text: mark, Colour: colour}, {Text: s.Name}, {Text: s.State, Colour: colour}, {Text: elapsed, Right: true}, {Text: tools, Right: true}, {Text: text, Colour: terminal.Faint}}
}

func markOf(state string) string {
	switch status.State(state) {
	case status.Ready, status.Idle:
		return "✓"
	case status.Failed, status.NeedsAuth, status.Misconfigured:
		return "✗"
	case status.Starting, status.Restarting:
		return "…"
	}
	return "-"
}

func colourOf(state string) terminal.Colour {
	switch status.State(state) {
	case status.Ready:
		return terminal.Green
	case status.Starting, status.Restarting:
		return terminal.Yellow
	case status.Failed, status.NeedsAuth, status.Misconfigured:
		return terminal.Red
	case status.Idle:
		return terminal.Plain
	}
	return terminal.Faint
}

// Tally sums the servers up in a line, and counts those that do not work.
func Tally(rows []Row) (line string, failed int) {
	up, starting, wanted, tools := 0, 0, 0, 0
	for _, s := range rows {
		tools += s.Tools
		switch status.State(s.State) {
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

// Table returns the table of servers for a terminal with so many columns and lines; 0
// stands for any number.
func Table(rows []Row, columns, lines int, colours bool) []string {
	title := func(text string) terminal.Cell { return terminal.Cell{Text: text, Colour: terminal.Bold} }
	right := func(c terminal.Cell) terminal.Cell { c.Right = true; return c }
	spare := func(c terminal.Cell) terminal.Cell { c.Spare = true; return c }
	table := []terminal.Row{{title("SERVER"), title("STATE"), right(title("TOOLS")),
		spare(title("PROTOCOL")), spare(right(title("PID"))), spare(right(title("RESTARTS"))), title("NOTE")}}
	for _, s := range rows {
		pid := ""
		if s.PID > 0 {
			pid = strconv.Itoa(s.PID)
		}
		table = append(table, terminal.Row{{Text: s.Name}, {Text: s.State, Colour: colourOf(s.State)}, {Text: strconv.Itoa(s.Tools), Right: true},
			{Text: s.ProtocolVersion}, {Text: pid, Right: true}, {Text: strconv.Itoa(s.Restarts), Right: true}, {Text: cmp.Or(s.Problem, s.LastError), Colour: terminal.Faint}})
	}
	return terminal.Table(table, columns, lines, colours)
}

// Watched returns the lines of the table of servers for so many columns and lines, and below
// it a line that sums the servers up.
func Watched(rows []Row, columns, lines int, colours bool) []string {
	sum, _ := Tally(rows)
	var table []string
	if lines > 1 {
		table = Table(rows, columns, lines-1, colours)
	}
	return append(table, terminal.Cut(sum, columns))
}
