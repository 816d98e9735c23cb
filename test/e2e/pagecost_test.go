//go:build linux

package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"github.com/mcp-metarouter/metarouter/test/layer"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

// TestPageCost opens the page over a hundred servers under load. The page gets at most one update a
// second, of few bytes. The test logs how much processor time the router uses with the page and,
// before and after, without it. METAROUTER_PAGE_COST sets how long the page is open, such as 1h; the
// default is some seconds. "go test -v -run TestPageCost ./test/e2e" prints the figures.
func TestPageCost(t *testing.T) {
	layer.Full(t)
	const servers, perSecond, perUpdate = 100, 50, 64 << 10
	open := 6 * time.Second
	if asked := os.Getenv("METAROUTER_PAGE_COST"); asked != "" {
		var err error
		if open, err = time.ParseDuration(asked); err != nil {
			t.Fatal(err)
		}
	}
	light := lightServer(t)
	all := entries{}
	for i := range servers {
		_, args := mcptest.Command("-tools", "echo,pid,sleep")
		all[fmt.Sprintf("s%03d", i)] = map[string]any{"command": light, "args": args}
	}
	s := prepare(t, all, map[string]any{"listWait": "60s"})
	url, process := s.serveHTTP("--mode", "direct")
	c := mcptest.NewHTTPClient(t, url)
	defer c.Close()
	if _, err := c.Initialize(t.Context()); err != nil {
		t.Fatal(err)
	}
	list, err := c.Request(within(t), "tools/list", struct{}{}) // waits for all
	if err != nil {
		t.Fatal(err)
	}
	if listed := strings.Count(string(list), "__echo"); listed != servers {
		t.Fatalf("%d servers are listed", listed)
	}

	ctx, stop := context.WithCancel(t.Context())
	called := make(chan struct{})
	go func() { // the load
		defer close(called)
		pace := rate.NewLimiter(perSecond, 1)
		for i := 0; pace.Wait(ctx) == nil; i++ {
			if _, err := c.Call(ctx, fmt.Sprintf("s%03d__echo", i*7%servers), json.RawMessage(`{"message":"hello"}`)); err != nil && ctx.Err() == nil {
				t.Error(err)
				return
			}
		}
	}()
	defer func() { stop(); <-called }()

	var updates, bytes atomic.Int64
	root := strings.TrimSuffix(url, "/mcp")
	page := func() (leave func()) {
		ctx, cancel := context.WithCancel(t.Context())
		q, err := http.NewRequestWithContext(ctx, http.MethodGet, root+"/dashboard/events", nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := http.DefaultClient.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		read := make(chan struct{})
		go func() {
			defer close(read)
			lines := bufio.NewScanner(answer.Body)
			lines.Buffer(nil, 4<<20)
			for lines.Scan() {
				if strings.HasPrefix(lines.Text(), "data: ") {
					updates.Add(1)
					bytes.Add(int64(len(lines.Text())))
				}
			}
		}()
		return func() { cancel(); <-read; answer.Body.Close() }
	}
	used := func() time.Duration { return processorTime(t, process.Cmd.Process.Pid) }
	began := used()
	wait(t, open/4)
	before := used()
	opened, leave := time.Now(), page()
	wait(t, open)
	leave()
	elapsed, after := time.Since(opened), used()
	wait(t, open/4)
	with, without := percent(after-before, open), percent(used()-after+before-began, open/2)
	t.Logf("%d servers, %d calls a second: without a page %.2f %% of a core, with one for %v %.2f %%, which is %.2f %% more; %d updates of %d bytes",
		servers, perSecond, without, open, with, with-without, updates.Load(), bytes.Load()/max(1, updates.Load()))
	if n, most := updates.Load(), int64(elapsed/time.Second)+2; n < 1 || n > most {
		t.Errorf("%d updates in %v", n, elapsed)
	}
	if per := bytes.Load() / max(1, updates.Load()); per > perUpdate {
		t.Errorf("an update has %d bytes", per)
	}
}

func percent(part, of time.Duration) float64 { return 100 * float64(part) / float64(of) }

// wait waits, but fails when the test ends.
func wait(t *testing.T, d time.Duration) {
	t.Helper()
	select {
	case <-time.After(d):
	case <-t.Context().Done():
		t.Fatal(t.Context().Err())
	}
}

// processorTime returns the processor time of the process, in user and system mode.
func processorTime(t *testing.T, pid int) time.Duration {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	var ticks int
	for _, field := range fields[11:13] {
		n, err := strconv.Atoi(field)
		if err != nil {
			t.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond // USER_HZ is 100
}
