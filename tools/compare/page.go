//go:build linux

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

// comparePage opens the page over a hundred servers under load. The page gets at most one update a second, of few bytes.
// It prints how much processor time the router uses with the page and, before and after, without it.
func comparePage(t *T, o options) {
	const servers, perSecond, perUpdate = 100, 50, 64 << 10
	light := built(t, "test/chaos")
	all := entries{}
	for i := range servers {
		_, args := mcptest.Command("-tools", "echo,pid,sleep")
		all[fmt.Sprintf("s%03d", i)] = map[string]any{"command": light, "args": args}
	}
	home, address := t.TempDir(), mcptest.FreeAddress(t)
	file := writeServers(t, home, all, map[string]any{"metarouter": map[string]any{"listWait": "60s"}})
	serve := []string{"serve", "--mode", "direct", "--http", address, "--config", file, "--data", filepath.Join(home, "data")}
	process := mcptest.Start(t, built(t, "cmd/metarouter"), serve, home, environmentIn(home))
	mcptest.Listening(t, address)
	root := "http://" + address
	c := mcptest.NewHTTPClient(t, root+"/mcp")
	defer c.Close()
	if _, err := c.Initialize(t.Context()); err != nil {
		t.Fatal(err)
	}
	list, err := c.Request(t.Context(), "tools/list", struct{}{}) // waits for all
	if err != nil {
		t.Fatal(err)
	}
	if listed := strings.Count(string(list), "__echo"); listed != servers {
		t.Fatalf("%d servers are listed", listed)
	}

	defer load(t, c, servers, perSecond)()

	var seen pageUpdates
	used := func() time.Duration { return cpuOf(t, process.Cmd.Process.Pid) }
	began := used()
	wait(t, o.open/4)
	before := used()
	opened, leave := time.Now(), seen.open(t, root)
	wait(t, o.open)
	leave()
	elapsed, after := time.Since(opened), used()
	wait(t, o.open/4)
	with, without := percent(after-before, o.open), percent(used()-after+before-began, o.open/2)
	fmt.Printf("%d servers, %d calls a second: without a page %.2f %% of a core, with one for %v %.2f %%, which is %.2f %% more; %d updates of %d bytes\n",
		servers, perSecond, without, o.open, with, with-without, seen.updates.Load(), seen.each())
	if n, most := seen.updates.Load(), int64(elapsed/time.Second)+2; n < 1 || n > most {
		t.Errorf("%d updates in %v", n, elapsed)
	}
	if per := seen.each(); per > perUpdate {
		t.Errorf("an update has %d bytes", per)
	}
}

// load calls the servers in turn, so often in a second, until stop is called.
func load(t *T, c *mcptest.HTTPClient, servers, perSecond int) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		pace := rate.NewLimiter(rate.Limit(perSecond), 1)
		for i := 0; pace.Wait(ctx) == nil; i++ {
			if _, err := c.Call(ctx, fmt.Sprintf("s%03d__echo", i*7%servers), json.RawMessage(`{"message":"hello"}`)); err != nil && ctx.Err() == nil {
				t.Error(err)
				return
			}
		}
	}()
	return func() { cancel(); <-ended }
}

// pageUpdates counts the updates that a page gets, and their bytes.
type pageUpdates struct{ updates, bytes atomic.Int64 }

// each returns the bytes of an update.
func (u *pageUpdates) each() int64 { return u.bytes.Load() / max(1, u.updates.Load()) }

// open opens a page of the router at root until leave is called.
func (u *pageUpdates) open(t *T, root string) (leave func()) {
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
				u.updates.Add(1)
				u.bytes.Add(int64(len(lines.Text())))
			}
		}
	}()
	return func() { cancel(); <-read; answer.Body.Close() }
}

func percent(part, of time.Duration) float64 { return 100 * float64(part) / float64(of) }

// wait waits, but fails when the test ends.
func wait(t *T, d time.Duration) {
	t.Helper()
	select {
	case <-time.After(d):
	case <-t.Context().Done():
		t.Fatal(t.Context().Err())
	}
}
