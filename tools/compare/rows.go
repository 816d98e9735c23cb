//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/mcp-metarouter/metarouter/test/fakeserver"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

// starts measures a way on its own: the start, memory, and further clients.
func (s samples) starts(t *T, w way, servers entries) {
	if w.version != nil {
		began := time.Now()
		if out, err := exec.Command(w.version[0], w.version[1:]...).CombinedOutput(); err != nil {
			t.Errorf("%v: %v\n%s", w.version, err, out)
		}
		s.add(printsOwn, w, milliseconds(time.Since(began)))
	}
	began := time.Now()
	r, err := w.start(t, servers)
	if err != nil {
		t.Fatal(err)
	}
	awaitTools(t, r, peerServers*peerTools)
	if !r.remote {
		s.add(coldStart, w, milliseconds(time.Since(began)))
	}
	if r.program == "" {
		return
	}
	time.Sleep(2 * time.Second) // for what follows a start
	idle := memoryOf(t, r.processes(t))
	s.add(idleMemory, w, idle.all)
	s.add(idleAnon, w, idle.anonymous)
	s.add(idleFile, w, idle.file)
	if r.more == nil {
		return
	}
	const further = 4
	for range further {
		if err := r.more(); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(time.Second)
	s.add(nextClient, w, (memoryOf(t, r.processes(t)).all-idle.all)/further)
}

// storedStarts measures starts with a catalog of 200 servers from an earlier run.
func (s samples) storedStarts(t *T, w way, program string, turns int) {
	const all = 200
	servers := entries{}
	for i := range all {
		_, args := mcptest.Command("-tools", "echo,say", "-pid-file", t.TempDir()+"/pid")
		servers[fmt.Sprintf("s%d", i)] = map[string]any{"command": program, "args": args}
	}
	home := t.TempDir()
	for turn := range turns + 1 {
		t.Run("start", func(t *T) {
			t.Cleanup(func() {
				mcptest.WaitFor(t, "all servers to end", func() bool { return !mcptest.IsNamed(program) })
			})
			began := time.Now()
			r, err := w.startAt(t, home, servers)
			if err != nil {
				t.Fatal(err)
			}
			awaitTools(t, r, 2*all)
			if turn > 0 {
				s.add(storedStart, w, milliseconds(time.Since(began)))
				return
			}
			for i := range all { // as each was started at least once
				mcptest.WaitFor(t, "each server to answer", func() bool { return echo("up", "say", "text").ask(r, i) == nil })
			}
			time.Sleep(2 * time.Second) // until the catalog is on disk
		})
	}
}

// awaitTools waits until the router lists so many tools.
func awaitTools(t testing.TB, r route, want int) {
	t.Helper()
	mcptest.WaitFor(t, fmt.Sprintf("%d tools", want), func() bool {
		n := 0
		for _, session := range r.sessions {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			list, err := session.Request(ctx, "tools/list", json.RawMessage(`{}`))
			cancel()
			if err != nil {
				return false
			}
			n += bytes.Count(list, []byte(`"inputSchema":`))
		}
		return n == want
	})
}

// calls measures calls of all ways, which are started together. The tool returns its argument text.
func (s samples) calls(t *T, ways []way, turns int, servers entries, tools int, tool string) {
	routes := map[string]route{}
	for _, w := range ways {
		r, err := w.start(t, servers)
		if err != nil {
			t.Fatalf("%s: %v", w.name, err)
		}
		awaitTools(t, r, tools)
		routes[w.name] = r
	}
	s.callsOf(t, ways, routes, turns, tool)
}

// callsOf does so with ways that were started.
func (s samples) callsOf(t *T, ways []way, routes map[string]route, turns int, tool string) {
	time.Sleep(2 * time.Second) // for what follows a start
	small := echo(fakeserver.Prose(100), tool, "text")
	medium, large := echo(fakeserver.Prose(64<<10), tool, "text"), echo(fakeserver.Prose(1<<20), tool, "text")
	for turn := range turns {
		for _, w := range rotated(ways, turn) {
			r := routes[w.name]
			s.inTurn(t, w, r, 300, small, smallCall, smallCPU)
			s.atOnce(t, w, r, 8, small, eightAtOnce, "")
			s.atOnce(t, w, r, 64, small, manyAtOnce, manyCPU)
			s.inTurn(t, w, r, 40, medium, mediumCall, "")
			s.inTurn(t, w, r, 8, large, largeCall, "")
			if tool == sdkTool {
				answer := question{tool, fmt.Sprintf(`{"bytes":%d}`, 1<<20), large.want}
				s.inTurn(t, w, r, 8, answer, largeAnswer, "")
			}
		}
	}
}

// inTurn makes calls, one at a time and one server after the other, for two seconds at most, and adds the median of
// their times in ms. cpuRow, unless empty, gets the CPU time of a call.
func (s samples) inTurn(t *T, w way, r route, calls int, q question, row, cpuRow string) {
	for i := range max(3, calls/5) { // so that every path is warm
		if err := q.ask(r, i); err != nil {
			t.Errorf("%s: %s: %v", w.name, row, err)
			return
		}
	}
	before, counted := r.cpu(t)
	var took []float64
	for began := time.Now(); len(took) < calls && (len(took) < 3 || time.Since(began) < 2*time.Second); {
		d, err := q.timed(r, len(took))
		if err != nil {
			t.Errorf("%s: %s: %v", w.name, row, err)
			return
		}
		took = append(took, milliseconds(d))
	}
	s.add(row, w, middle(took))
	if after, _ := r.cpu(t); counted && cpuRow != "" {
		s.add(cpuRow, w, milliseconds(after-before)/float64(len(took)))
	}
}

// atOnce keeps so many calls under way for a second, and adds how many were answered in a second.
func (s samples) atOnce(t *T, w way, r route, callers int, q question, row, cpuRow string) {
	var group sync.WaitGroup
	made, failed := make([]int, callers), make([]error, callers)
	before, counted := r.cpu(t)
	began := time.Now()
	for c := range callers {
		group.Go(func() {
			for i := c; time.Since(began) < time.Second && failed[c] == nil; i++ {
				failed[c] = q.ask(r, i)
				made[c]++
			}
		})
	}
	group.Wait()
	took := time.Since(began)
	after, _ := r.cpu(t)
	if err := errors.Join(failed...); err != nil {
		t.Errorf("%s: %s: %v", w.name, row, err)
		return
	}
	all := 0.0
	for _, n := range made {
		all += float64(n)
	}
	s.add(row, w, all/took.Seconds())
	if counted && cpuRow != "" {
		s.add(cpuRow, w, milliseconds(after-before)/all)
	}
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// sdkTool is a tool of package sdkserver.
const sdkTool = "list_issue"

// A question is a call of any server, and what the right answer has, as the bytes of a JSON string.
type question struct {
	tool, arguments string
	want            []byte
}

// echo is a call whose answer has the text of an argument.
func echo(text, tool, argument string) question {
	encoded, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	arguments := fmt.Sprintf(`{%q:%s}`, argument, encoded)
	return question{tool, arguments, bytes.Trim(encoded, `"`)}
}

// ask asks a server.
func (q question) ask(r route, server int) error {
	_, err := q.timed(r, server)
	return err
}

// timed asks a server, and returns how long the answer took.
func (q question) timed(r route, server int) (took time.Duration, _ error) {
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
	defer cancel()
	server %= r.servers
	params := json.RawMessage(fmt.Sprintf(`{"name":%q,"arguments":%s}`, r.tool(server, q.tool), q.arguments))
	session := r.sessions[server%len(r.sessions)]
	began := time.Now()
	answer, err := session.Request(ctx, "tools/call", params)
	took = time.Since(began)
	if err == nil && !bytes.Contains(answer, q.want) {
		err = fmt.Errorf("server %d answered %s with %d bytes: %.200s", server, q.tool, len(answer), answer)
	}
	return took, err
}
