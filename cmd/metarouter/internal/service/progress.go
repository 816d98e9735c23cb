package service

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/console"
	"github.com/mcp-metarouter/metarouter/internal/plain"
	"github.com/mcp-metarouter/metarouter/internal/prose"
	"github.com/mcp-metarouter/metarouter/internal/status"
)

// showAfter is how long servers must take to start before a terminal shows them.
const showAfter = 400 * time.Millisecond

// tally sums the servers up in a line, and counts those that do not work.
func tally(all []adapter.ServerInfo) (line string, failed int) {
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
func lineOf(all []adapter.ServerInfo, began, now time.Time) string {
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

// ShowServers runs wait, and shows meanwhile how the router's servers start.
func ShowServers(stderr io.Writer, r interface{ Servers() []adapter.ServerInfo }, wait func()) {
	began := time.Now()
	console.Live(stderr, wait, showAfter, func(now time.Time) string { return lineOf(r.Servers(), began, now) })
}

// ShowStart shows the servers until all have started or failed, and then sums them up in a
// line.
func ShowStart(ctx context.Context, stderr io.Writer, r *adapter.Parts) {
	ShowServers(stderr, r, func() { r.Started(ctx) })
	if ctx.Err() == nil {
		line, failed := tally(r.Servers())
		if failed > 0 {
			line += "; 'metarouter doctor' says what to do"
		}
		fmt.Fprintln(stderr, line)
	}
}
