//go:build linux

package main

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"
)

// write writes the report and the plot.
func (r *run) write(took time.Duration) error {
	if r.plot != "" {
		if err := os.WriteFile(r.plot, []byte(plot(r.meter.samples)), 0o644); err != nil {
			return err
		}
	}
	text := r.text(took)
	if r.report == "" {
		_, err := fmt.Print(text)
		return err
	}
	return os.WriteFile(r.report, []byte(text), 0o644)
}

// text returns the report in Markdown.
func (r *run) text(took time.Duration) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	t := r.ledger.sum()
	line("%d clients, %d servers, seed %d: %v of load, %v in all.\n", r.clients, r.servers, r.seed, r.lasts, took.Round(time.Second))
	line("| calls | |\n|---|---|")
	line("| made | %d |\n| answered rightly | %d |\n| failed for a reason that was named | %d |", t.Made, t.Right, t.Failed)
	line("| answered wrongly | %d |\n| answered twice | %d |\n| lost | %d |", t.Wrong, t.Twice, t.Lost)
	line("| lines that are no message | %d |", t.Garbled)
	line("| the slowest right answer | %v |\n", r.ledger.slowest.Round(time.Millisecond))

	reasons, examples := r.ledger.byReason()
	if len(reasons) > 0 {
		line("| why calls failed | |\n|---|---|")
		for _, reason := range slices.SortedFunc(maps.Keys(reasons), func(a, b string) int { return reasons[b] - reasons[a] }) {
			line("| %s | %d |", reason, reasons[reason])
		}
		line("")
	}
	if len(r.faulter.count) > 0 {
		line("| faults | |\n|---|---|")
		for _, name := range slices.Sorted(maps.Keys(r.faulter.count)) {
			line("| %s | %d |", faults[name].what, r.faulter.count[name])
		}
		line("")
	}
	if slices.Contains(r.options.faults, "disk") && !r.smallDisk {
		line("No disk was filled: a mount namespace is not permitted here.\n")
	}
	before, after := r.meter.before, r.meter.after
	line("| all routers together | before | after |\n|---|---|---|")
	line("| resident memory, MB | %d | %d |", before.memory>>20, after.memory>>20)
	line("| open descriptors | %d | %d |", before.files, after.files)
	line("| threads | %d | %d |", before.threads, after.threads)
	line("| routers, guards, servers | %v | %v |\n", before.count, after.count)
	for _, kind := range []string{"LOST", "TWICE", "WRONG", "GARBLED", "other"} {
		if text, ok := examples[kind]; ok {
			line("%s, for example: %s\n", kind, text)
		}
	}
	for _, p := range r.problems {
		line("Problem: %s\n", p)
	}
	return b.String()
}
