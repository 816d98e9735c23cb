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

	"github.com/mcp-metarouter/metarouter/internal/mcptest"
)

// TestPageCost has a page open over a hundred servers under load: it is told of what
// happens once a second, and in few bytes. What that costs the router is measured by
// turns with and without the page, for the time that METAROUTER_PAGE_COST says, such as
// 10m, else for some seconds; "go test -v -run TestPageCost ./internal/e2e" prints it.
func TestPageCost(t *testing.T) {
	const servers, perSecond, perUpdate = 100, 50, 64 << 10
	turn, turns := 3*time.Second, 2
	if asked := os.Getenv("METAROUTER_PAGE_COST"); asked != "" {
		whole, err := time.ParseDuration(asked)
		if err != nil {
			t.Fatal(err)
		}
		turn = whole / time.Duration(2*turns)
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
	var with, without time.Duration // of the processor's time
	began := time.Now()
	for range turns {
		before := processorTime(t, process.Cmd.Process.Pid)
		wait(t, turn)
		between := processorTime(t, process.Cmd.Process.Pid)
		leave := page()
		wait(t, turn)
		leave()
		without += between - before
		with += processorTime(t, process.Cmd.Process.Pid) - between
	}
	elapsed := time.Duration(turns) * turn
	t.Logf("%d servers, %d calls a second, %v in turns: without a page %.2f %% of a core, with it %.2f %%, which is %.2f %% more; %d updates of %d bytes",
		servers, perSecond, time.Since(began).Round(time.Second), percent(without, elapsed), percent(with, elapsed), percent(with-without, elapsed), updates.Load(), bytes.Load()/max(1, updates.Load()))
	if n, most := updates.Load(), int64(turns)*int64(time.Since(began)/time.Second+2); n < int64(turns) || n > most {
		t.Errorf("%d updates in %v", n, elapsed)
	}
	if per := bytes.Load() / max(1, updates.Load()); per > perUpdate {
		t.Errorf("an update has %d bytes", per)
	}
}

func percent(part, of time.Duration) float64 { return 100 * float64(part) / float64(of) }

// wait waits unless the test ends before.
func wait(t *testing.T, d time.Duration) {
	t.Helper()
	select {
	case <-time.After(d):
	case <-t.Context().Done():
		t.Fatal(t.Context().Err())
	}
}

// processorTime returns what the process has used of it, in user and system mode.
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
