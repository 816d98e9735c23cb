// Package progress shows how the servers of a router are, as lines of text: live lines
// while servers start, a line that sums them up, and a table. [Table] and [Watched] are pure;
// [Show] and its variants show live lines on a terminal while something runs.
package progress

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/console"
	"github.com/mcp-metarouter/metarouter/internal/prose"
	"github.com/mcp-metarouter/metarouter/internal/serverrow"
	"github.com/mcp-metarouter/metarouter/internal/status"
)

// A Row describes one server.
type Row struct {
	serverrow.Row
	Since time.Time // when the server came into its state; zero if unknown
	Doing string    // the step of its start that it waits for
}

func rowsOf(all []adapter.ServerInfo) []Row {
	rows := make([]Row, len(all))
	for i, row := range serverrow.Of(all) {
		rows[i] = Row{row, all[i].Since, all[i].Doing}
	}
	return rows
}

// A look is how a server in some state is shown.
type look struct {
	mark    string
	colour  console.Colour
	urgency int // where there is no room for all servers, the ones with the least come first
}

var looks = map[status.State]look{
	status.Starting: {"…", console.Yellow, 0}, status.Restarting: {"…", console.Yellow, 1},
	status.Failed: {"✗", console.Red, 1}, status.NeedsAuth: {"✗", console.Red, 1}, status.Misconfigured: {"✗", console.Red, 1},
	status.Ready: {"✓", console.Green, 2}, status.Idle: {"✓", console.Plain, 2},
}

func lookOf(s Row) look {
	if l, ok := looks[status.State(s.State)]; ok {
		return l
	}
	return look{"-", console.Faint, 2}
}

// liveLines returns the live lines of one moment: a line for each server, and the last line
// sums up and says how long it has taken since began. It fills at most height lines of
// width columns; servers that are starting or do not work take precedence.
func liveLines(rows []Row, began, now time.Time, width, height int, colour bool) []string {
	if len(rows) > height-1 {
		rows = slices.SortedStableFunc(slices.Values(rows), func(a, b Row) int { return cmp.Compare(lookOf(a).urgency, lookOf(b).urgency) })
	}
	var table []console.Row
	for _, s := range rows {
		table = append(table, liveRow(s, now))
	}
	line, _ := tally(rows)
	var lines []string
	if height > 1 {
		lines = console.Table(table, width, height-1, colour)
	}
	return append(lines, console.Cut(line+", "+console.Elapsed(now.Sub(began)), width))
}

func liveRow(s Row, now time.Time) console.Row {
	look, tools, elapsed, text := lookOf(s), "", "", ""
	switch status.State(s.State) {
	case status.Starting, status.Restarting:
		look.mark, text = console.Spinner(now), cmp.Or(s.Doing, s.LastError)
		if !s.Since.IsZero() {
			elapsed = console.Elapsed(now.Sub(s.Since))
		}
	case status.Ready, status.Idle:
	default:
		text = s.LastError
	}
	if s.Tools > 0 {
		tools = prose.Count(s.Tools, "tool")
	}
	return console.Row{{Text: look.mark, Colour: look.colour}, {Text: s.Name}, {Text: s.State, Colour: look.colour}, {Text: elapsed, Right: true}, {Text: tools, Right: true}, {Text: text, Colour: console.Faint}}
}

// tally sums the servers up in a line, and counts those that do not work.
func tally(rows []Row) (line string, failed int) {
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
	title := func(text string) console.Cell { return console.Cell{Text: text, Colour: console.Bold} }
	right := func(c console.Cell) console.Cell { c.Right = true; return c }
	spare := func(c console.Cell) console.Cell { c.Spare = true; return c }
	table := []console.Row{{title("SERVER"), title("STATE"), right(title("TOOLS")),
		spare(title("PROTOCOL")), spare(right(title("PID"))), spare(right(title("RESTARTS"))), title("NOTE")}}
	for _, s := range rows {
		pid := ""
		if s.PID > 0 {
			pid = strconv.Itoa(s.PID)
		}
		table = append(table, console.Row{{Text: s.Name}, {Text: s.State, Colour: lookOf(s).colour}, {Text: strconv.Itoa(s.Tools), Right: true},
			{Text: s.ProtocolVersion}, {Text: pid, Right: true}, {Text: strconv.Itoa(s.Restarts), Right: true}, {Text: cmp.Or(s.Problem, s.LastError), Colour: console.Faint}})
	}
	return console.Table(table, columns, lines, colours)
}

// Watched returns the lines of the table of servers for so many columns and lines, and below
// it a line that sums the servers up.
func Watched(rows []Row, columns, lines int, colours bool) []string {
	sum, _ := tally(rows)
	var table []string
	if lines > 1 {
		table = Table(rows, columns, lines-1, colours)
	}
	return append(table, console.Cut(sum, columns))
}
