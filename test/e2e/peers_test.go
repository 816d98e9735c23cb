//go:build linux

package e2e

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
	"time"

	"github.com/mcp-metarouter/metarouter/test/layer"
)

const (
	peerServers = 10
	peerTools   = 10 // of each server
	peerTurns   = 5  // in each turn every way is measured once; METAROUTER_TURNS changes it
)

// TestPeers measures the router next to others in front of the same servers, which are made with the
// official Go SDK: see peerWays for the variables that choose the others. The ways take turns, so
// that other work of the machine slows all of them. It prints a table of medians, and fails
// only if an answer is wrong or a server is missing.
func TestPeers(t *testing.T) {
	layer.Full(t)
	ways := peerWays(t)
	turns := peerTurns
	if n, err := strconv.Atoi(os.Getenv("METAROUTER_TURNS")); err == nil && n > 0 {
		turns = n
	}
	program := built(t, "test/sdkserver")
	began := time.Now()
	taken := samples{}
	t.Run("starts", func(t *testing.T) {
		for turn := range turns {
			for _, w := range rotated(ways, turn) {
				t.Run(w.name, func(t *testing.T) { taken.starts(t, w, sdkServers(t, program, peerServers)) })
			}
		}
	})
	t.Run("calls", func(t *testing.T) { taken.calls(t, ways, turns, program) })
	t.Run("stored", func(t *testing.T) {
		light := lightServer(t)
		for _, w := range ways {
			if w.stores {
				t.Run(w.name, func(t *testing.T) { taken.storedStarts(t, w, light, turns) })
			}
		}
	})
	t.Logf("medians of %d turns, taken in %v\n%s\nThe smallest and the largest of the turns:\n%s", turns, time.Since(began).Round(time.Second),
		taken.table(ways, median), taken.table(ways, span))
}

// rotated returns the ways in the order of a turn: each begins with another one.
func rotated(ways []way, turn int) []way {
	k := turn % len(ways)
	return slices.Concat(ways[k:], ways[:k])
}

// The rows of the table: what is measured, and in which unit.
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

// samples has what was measured, by row and by the way's name: a figure for each turn.
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

// table returns the samples in Markdown; a cell shows what f makes of the turns.
func (s samples) table(ways []way, f func([]float64) string) string {
	var text strings.Builder
	fmt.Fprintf(&text, "| %d servers with %d tools each |", peerServers, peerTools)
	for _, w := range ways {
		fmt.Fprintf(&text, " %s |", w.name)
	}
	text.WriteString("\n|---|" + strings.Repeat("---|", len(ways)) + "\n")
	for _, row := range peerRows {
		if s[row] == nil {
			continue
		}
		text.WriteString("| " + row + " |")
		for i, w := range ways {
			fmt.Fprintf(&text, " %s |", s.cell(row, w, ways[0], i == 0, f))
		}
		text.WriteByte('\n')
	}
	return text.String()
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

// built builds a program of this module as releases are built, and returns its path.
func built(t testing.TB, folder string) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), filepath.Base(folder))
	build := exec.Command("go", "build", "-race=false", "-trimpath", "-ldflags", "-s -w", "-o", program, "github.com/mcp-metarouter/metarouter/"+folder)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", folder, err, out)
	}
	return program
}

// sdkServers returns entries s0, s1 … of servers made with the SDK.
func sdkServers(t *testing.T, program string, n int) entries {
	t.Helper()
	servers := entries{}
	for i := range n {
		servers[fmt.Sprintf("s%d", i)] = map[string]any{"command": program, "args": []string{"-tools", strconv.Itoa(peerTools)}}
	}
	return servers
}
