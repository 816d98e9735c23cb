//go:build linux

package hostile

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// lastsVariable says how long all cases take together; by default each takes about a second.
const lastsVariable = "METAROUTER_HOSTILE"

// lasts returns how long each of the cases of a test attacks, where all tests have this many.
func lasts(t *testing.T, short time.Duration) time.Duration {
	asked := os.Getenv(lastsVariable)
	if asked == "" {
		return short
	}
	all, err := time.ParseDuration(asked)
	if err != nil {
		t.Fatal(err)
	}
	const cases = 150 // about
	return max(short, all*time.Duration(lanes())/cases)
}

// deadline is how long an honest call may take, however busy the machine is. The aim of 150 ms
// for 99 of 100 calls is printed and not checked.
const deadline = time.Minute

// An honest client makes calls until its context ends.
type honest struct {
	t     *testing.T
	call  func(ctx context.Context, tool string, arguments any) (json.RawMessage, error)
	pause time.Duration

	mu   sync.Mutex // guards took
	took []time.Duration
}

// honestLoad is the load of an honest client over HTTP.
func (r *router) honestLoad() *honest {
	c := r.client(`{}`)
	return &honest{t: r.t, call: c.Call, pause: 10 * time.Millisecond}
}

// work makes calls with some workers until ctx ends, and waits for the last answers.
func (h *honest) work(ctx context.Context) {
	const workers = 2
	var all sync.WaitGroup
	for w := range workers {
		all.Go(func() {
			for i := 0; ctx.Err() == nil && !h.t.Failed(); i++ {
				h.one(fmt.Sprintf("%d of worker %d é", i, w))
				select {
				case <-time.After(h.pause):
				case <-ctx.Done():
				}
			}
		})
	}
	all.Wait()
}

// one makes a call and checks its answer.
func (h *honest) one(message string) {
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	began := time.Now()
	arguments := fmt.Sprintf(`{"message":%q}`, message)
	result, err := h.call(ctx, "honest__echo", json.RawMessage(arguments))
	took := time.Since(began)
	if err != nil {
		h.t.Errorf("an honest call after %v: %v", took, err)
		return
	}
	if text, isError := textOf(result); isError || text != arguments {
		h.t.Errorf("an honest call: %.500s, want %s", result, arguments)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.took = append(h.took, took)
}

// textOf returns the text of a CallToolResult.
func textOf(result json.RawMessage) (text string, isError bool) {
	var r struct {
		Content []struct{ Text string }
		IsError bool
	}
	if json.Unmarshal(result, &r) != nil || len(r.Content) == 0 {
		return "", true
	}
	return r.Content[0].Text, r.IsError
}

// report adds the calls to the table of all cases.
func (h *honest) report(peak int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.took) == 0 {
		h.t.Error("no honest call was answered")
		return
	}
	slices.Sort(h.took)
	at := func(p float64) time.Duration { return h.took[int(p*float64(len(h.took)-1))] }
	latencies.add(latency{h.t.Name(), len(h.took), at(0.5), at(0.99), at(1), peak})
}

// A latency is a row of the table.
type latency struct {
	name          string
	calls         int
	p50, p99, max time.Duration
	peak          int // bytes that the router used
}

type table struct {
	mu   sync.Mutex // guards rows
	rows []latency
}

// latencies has the calls of all cases.
var latencies table

func (l *table) add(row latency) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rows = append(l.rows, row)
}

// print prints the table, the slowest first: all of it in a long run, else the worst.
func (l *table) print() {
	l.mu.Lock()
	defer l.mu.Unlock()
	slices.SortFunc(l.rows, func(a, b latency) int { return cmp.Compare(b.p99, a.p99) })
	shown := l.rows
	if os.Getenv(lastsVariable) == "" {
		shown = shown[:min(len(shown), 10)]
	}
	if len(shown) == 0 {
		return
	}
	fmt.Printf("honest calls with %d cases, the slowest first; the aim is p99 ≤ 150 ms on a quiet machine\n", len(l.rows))
	fmt.Printf("%8s %9s %9s %9s %8s  %s\n", "calls", "p50", "p99", "max", "peak", "with")
	for _, r := range shown {
		fmt.Printf("%8d %9s %9s %9s %5d MB  %s\n", r.calls, ms(r.p50), ms(r.p99), ms(r.max), r.peak>>20, strings.TrimPrefix(r.name, "Test"))
	}
}

func ms(d time.Duration) string { return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000) }
