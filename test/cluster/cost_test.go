//go:build linux

package cluster

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mcp-metarouter/metarouter/test/mcptest"
	"github.com/mcp-metarouter/metarouter/test/natsserver"
)

// wantsCost skips the test unless someone wants figures.
func wantsCost(t *testing.T) {
	t.Helper()
	if os.Getenv("METAROUTER_CLUSTER") != "cost" {
		t.Skip("it measures for a minute, if METAROUTER_CLUSTER is cost")
	}
}

// A way is a tool as a client of the gateway names it.
type way struct{ name, tool string }

// caller makes calls of one tool.
type caller func(ctx context.Context, tool string, arguments any) error

// TestCost measures calls of one server that is on the gateway itself and on another node. The
// ways take turns, so that whatever else the machine does slows all of them. It prints a table.
func TestCost(t *testing.T) {
	wantsCost(t)
	hub := natsserver.Start(t)
	urls := []string{hub.URL()}
	server := func() map[string]any { return fake(nil, "-tools", "echo,note,big") }
	a, b := newNode(t, "a", urls, entries{"near": server()}), newNode(t, "b", urls, entries{"far": server()})
	b.cluster["share"] = []string{"*"}
	trustEachOther(a, b)
	b.start()
	a.start()
	a.lists("near__echo", "far-at-b__big")
	overHTTP := a.client()
	overStdio := a.stdio("near__echo", "far-at-b__big")
	for _, client := range []struct {
		name    string
		gateway *mcptest.Client // the process
		call    caller
	}{
		{"stdio", overStdio, func(ctx context.Context, tool string, arguments any) error {
			_, err := overStdio.Call(ctx, tool, arguments)
			return err
		}},
		{"HTTP", a.process, func(ctx context.Context, tool string, arguments any) error {
			_, err := overHTTP.Call(ctx, tool, arguments)
			return err
		}},
	} {
		t.Logf("client over %s\n%s", client.name, costs(t, client.call, client.gateway, b.process))
	}
}

// costs returns a table of what calls cost. gateway and node are the processes.
func costs(t *testing.T, call caller, gateway, node *mcptest.Client) string {
	small := map[string]any{"message": strings.Repeat("a", 100)}
	direct := []way{{"local", "near__echo"}, {"other node", "far-at-b__echo"}}
	offered := []way{{"local", "near__note"}, {"other node", "far-at-b__note"}}
	large := []way{{"local", "near__big"}, {"other node", "far-at-b__big"}}
	var b strings.Builder
	row := func(name string, measured []time.Duration) {
		fmt.Fprintf(&b, "%-44s local %9v, other node %9v, %+9v, %.2f times\n", name,
			measured[0].Round(time.Microsecond), measured[1].Round(time.Microsecond), (measured[1] - measured[0]).Round(time.Microsecond), float64(measured[1])/float64(measured[0]))
	}
	row("100 B, may be repeated (one message), p50", latencies(t, call, direct, small, 600))
	row("100 B, may not (offer and start), p50", latencies(t, call, offered, small, 600))
	row("1 MiB answer, p50", latencies(t, call, large, map[string]any{"bytes": 1 << 20}, 60))
	for _, kind := range []struct {
		name string
		ways []way
	}{{"64 callers, may be repeated", direct}, {"64 callers, may not", offered}} {
		rates := throughput(t, call, kind.ways, small, 64)
		fmt.Fprintf(&b, "%-44s local %7.0f/s, other node %7.0f/s, %.2f times\n", kind.name, rates[0], rates[1], rates[1]/rates[0])
		for _, w := range kind.ways {
			before := cpuTime(t, gateway) + cpuTime(t, node)
			rate := rateOf(t, call, w.tool, small, 64, 2*time.Second)
			used := cpuTime(t, gateway) + cpuTime(t, node) - before
			fmt.Fprintf(&b, "%-44s %s: %v of the routers' CPU time a call\n", kind.name, w.name, (used / time.Duration(2*rate)).Round(time.Microsecond))
		}
	}
	return b.String()
}

// latencies returns the median time of a call by each way.
func latencies(t *testing.T, call caller, ways []way, arguments any, calls int) (medians []time.Duration) {
	t.Helper()
	took := make([][]time.Duration, len(ways))
	for range calls {
		for i, w := range ways {
			began := time.Now()
			if err := call(within(t), w.tool, arguments); err != nil {
				t.Fatalf("%s: %v", w.tool, err)
			}
			took[i] = append(took[i], time.Since(began))
		}
	}
	for _, all := range took {
		slices.Sort(all)
		medians = append(medians, all[len(all)/2])
	}
	return medians
}

// throughput returns the calls a second by each way with this many callers: the median of some
// turns.
func throughput(t *testing.T, call caller, ways []way, arguments any, callers int) (rates []float64) {
	t.Helper()
	const turns, turn = 5, time.Second
	measured := make([][]float64, len(ways))
	for range turns {
		for i, w := range ways {
			measured[i] = append(measured[i], rateOf(t, call, w.tool, arguments, callers, turn))
		}
	}
	for _, all := range measured {
		slices.Sort(all)
		rates = append(rates, all[turns/2])
	}
	return rates
}

// rateOf returns the calls a second of callers that call for a while.
func rateOf(t *testing.T, call caller, tool string, arguments any, callers int, lasts time.Duration) float64 {
	t.Helper()
	ctx := within(t)
	var done atomic.Int64
	var all sync.WaitGroup
	began := time.Now()
	for range callers {
		all.Go(func() {
			for time.Since(began) < lasts {
				if err := call(ctx, tool, arguments); err != nil {
					t.Errorf("%s: %v", tool, err)
					return
				}
				done.Add(1)
			}
		})
	}
	all.Wait()
	return float64(done.Load()) / time.Since(began).Seconds()
}

// cpuTime returns the CPU time that a process has used.
func cpuTime(t *testing.T, p *mcptest.Client) time.Duration {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.Cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	var ticks int // of 10 ms
	for _, field := range fields[11:13] {
		n, err := strconv.Atoi(field)
		if err != nil {
			t.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}
