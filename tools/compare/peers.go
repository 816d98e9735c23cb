//go:build linux

package main

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

const (
	peerServers = 10
	peerTools   = 10 // of each server
)

// comparePeers measures the router next to others in front of the same servers, which are made with the official Go SDK:
// calls, memory and starts.
func comparePeers(t *T, o options) {
	ways := peerWays(t, o)
	program := built(t, "test/sdkserver")
	servers := func() entries {
		all := entries{}
		for i := range peerServers {
			all[fmt.Sprintf("s%d", i)] = map[string]any{"command": program, "args": []string{"-tools", strconv.Itoa(peerTools)}}
		}
		return all
	}
	taken := samples{}
	t.Run("starts", func(t *T) {
		for turn := range o.turns {
			for _, w := range rotated(ways, turn) {
				t.Run(w.name, func(t *T) { taken.starts(t, w, servers()) })
			}
		}
	})
	t.Run("calls", func(t *T) { taken.calls(t, ways, o.turns, servers(), peerServers*peerTools, sdkTool) })
	t.Run("stored", func(t *T) {
		light := built(t, "test/chaos")
		for _, w := range ways {
			if w.stores {
				t.Run(w.name, func(t *T) { taken.storedStarts(t, w, light, o.turns) })
			}
		}
	})
	taken.print(fmt.Sprintf("%d servers with %d tools each", peerServers, peerTools), ways)
}

// compareCalls measures calls of one server that costs next to nothing: through the router, divided by the same without.
func compareCalls(t *T, o options) {
	ways := append([]way{{name: "direct", startAt: startDirect}}, ours(t, o, "direct")...)
	_, args := mcptest.Command("-tools", "say")
	servers := entries{"s0": {"command": built(t, "test/chaos"), "args": args}}
	taken := samples{}
	taken.calls(t, ways, o.turns, servers, 1, "say")
	taken.print("one server with one tool", ways)
}

// rotated returns the ways in the order of a turn: each begins with another one.
func rotated(ways []way, turn int) []way {
	k := turn % len(ways)
	return slices.Concat(ways[k:], ways[:k])
}

// The rows of the table: the quantity and its unit.
const (
	smallCall   = "a call of 100 bytes"
	mediumCall  = "a call of 64 KiB"
	largeCall   = "a call of 1 MiB"
	largeAnswer = "an answer of 1 MiB"
	eightAtOnce = "calls per second, 8 at once"
	manyAtOnce  = "calls per second, 64 at once"
	smallCPU    = "the router's CPU time for a call of 100 bytes, ms"
	manyCPU     = "the router's CPU time for a call, 64 at once, ms"
	idleMemory  = "memory when idle (PSS, all processes), MiB"
	idleAnon    = "… of it not from files, MiB"
	idleFile    = "… of it from files and shared memory, MiB"
	nextClient  = "memory for each further client, MiB"
	coldStart   = "start until all tools are listed, ms"
	storedStart = "the same with 200 servers in the stored catalog, ms"
	printsOwn   = "`version`, ms"
)

var peerRows = []string{smallCall, mediumCall, largeCall, largeAnswer, eightAtOnce, manyAtOnce, smallCPU, manyCPU,
	idleMemory, idleAnon, idleFile, nextClient, coldStart, storedStart, printsOwn}

// samples has the figures, by row and by the way's name: a figure for each turn.
type samples map[string]map[string][]float64

func (s samples) add(row string, w way, figure float64) {
	if s[row] == nil {
		s[row] = map[string][]float64{}
	}
	s[row][w.name] = append(s[row][w.name], figure)
}

// isRatio reports whether a row has multiples of the first way, turn by turn.
func isRatio(row string) bool {
	return slices.Contains([]string{smallCall, mediumCall, largeCall, largeAnswer, eightAtOnce, manyAtOnce}, row)
}

// print prints the samples: the medians of the turns, then the smallest and the largest.
func (s samples) print(about string, ways []way) {
	for _, part := range []struct {
		name string
		of   func([]float64) string
	}{{"medians", median}, {"the smallest and the largest", span}} {
		fmt.Printf("\n| %s, %s |", about, part.name)
		for _, w := range ways {
			fmt.Printf(" %s |", w.name)
		}
		fmt.Print("\n|---|" + strings.Repeat("---|", len(ways)) + "\n")
		for _, row := range peerRows {
			if s[row] == nil {
				continue
			}
			fmt.Print("| " + row + " |")
			for i, w := range ways {
				fmt.Printf(" %s |", s.cell(row, w, ways[0], i == 0, part.of))
			}
			fmt.Println()
		}
	}
}

func (s samples) cell(row string, w, first way, isFirst bool, f func([]float64) string) string {
	figures := s[row][w.name]
	switch {
	case len(figures) == 0:
		return "–"
	case !isRatio(row):
		return f(figures)
	case isFirst:
		return fmt.Sprintf("1 (%s)", f(figures))
	}
	var ratios []float64
	for turn, base := range s[row][first.name] {
		if turn < len(figures) {
			ratios = append(ratios, figures[turn]/base)
		}
	}
	return f(ratios)
}

func median(of []float64) string { return short(middle(of)) }
func span(of []float64) string {
	if len(of) == 0 {
		return "–"
	}
	return short(slices.Min(of)) + "–" + short(slices.Max(of))
}

// short is a figure with as many digits as mean something.
func short(figure float64) string {
	if figure >= 100 {
		return fmt.Sprintf("%.0f", figure)
	}
	return strconv.FormatFloat(figure, 'g', 3, 64)
}

// middle returns the median.
func middle(of []float64) float64 {
	if len(of) == 0 {
		return math.NaN()
	}
	return slices.Sorted(slices.Values(of))[len(of)/2]
}

// built builds a program of the module, or of tools, as releases are built, and returns its path.
func built(t testing.TB, folder string) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), filepath.Base(folder))
	dir, rest := ".", folder
	if name, ok := strings.CutPrefix(folder, "tools/"); ok {
		dir, rest = "tools", name // a module of its own
	}
	build := exec.Command("go", "build", "-race=false", "-trimpath", "-ldflags", "-s -w", "-o", program, "./"+rest)
	build.Dir, build.Env = dir, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", folder, err, out)
	}
	return program
}
