//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/mcp-metarouter/metarouter/test/fakeserver"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

// withScripts lets the clients of the profile code run scripts in mode direct.
var withScripts = map[string]any{"metarouter": map[string]any{
	"scripts":  map[string]any{"calls": 2000, "timeout": "10m", "cpu": "1m"},
	"profiles": map[string]any{"code": map[string]any{"scripts": true}},
}}

// scriptClients starts a router that allows scripts, and returns its arguments and a legacy client.
func scriptClients(t *T, program, home, data string, more ...string) ([]string, *lineClient) {
	command, args := mcptest.Command("-tools", "say")
	file := writeServers(t, home, entries{"s0": {"command": command, "args": args}}, withScripts)
	serve := append([]string{"serve", "--mode", "direct", "--profile", "code", "--config", file, "--data", data}, more...)
	c, err := newLineClient(t, program, serve, home, environmentIn(home))
	if err != nil {
		t.Fatal(err)
	}
	return serve, c
}

// timed returns the milliseconds that a call takes. Its answer must have the text want.
func timed(t *T, c mcptest.Requester, tool, arguments, want string) float64 {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	begun := time.Now()
	answer, err := c.Request(ctx, "tools/call", json.RawMessage(fmt.Sprintf(`{"name":%q,"arguments":%s}`, tool, arguments)))
	took := milliseconds(time.Since(begun))
	if err != nil || !strings.Contains(string(answer), want) {
		t.Fatalf("%s: %v, %.300s", tool, err, answer)
	}
	return took
}

const emptyScript = `{"code":"return 'done'"}`

// compareScripts measures the first script of a process, without and with kept machine code, then an empty script, and a
// thousand calls of 100 bytes: by a client, one after the other, and by scripts.
func compareScripts(t *T, o options) {
	program := built(t, "cmd/metarouter")
	for _, cache := range []string{"cold", "warm"} {
		kept := t.TempDir()
		var times []float64
		for turn := range o.turns + 1 { // the first one fills the cache
			t.Run("first", func(t *T) {
				home, data := t.TempDir(), kept
				if cache == "cold" {
					data = filepath.Join(home, "data")
				}
				_, c := scriptClients(t, program, home, data, "--standalone")
				timed(t, c, "s0__say", `{"text":"hello"}`, "hello")
				if took := timed(t, c, "run_script", emptyScript, "done"); turn > 0 {
					times = append(times, took)
				}
			})
		}
		fmt.Printf("the first script of a process, %s cache: %s ms\n", cache, median(times))
	}
	t.Run("shared", func(t *T) { scriptsOf(t, program, o.turns) })
	t.Run("standalone", func(t *T) { scriptsOf(t, program, o.turns, "--standalone") })
}

func scriptsOf(t *T, program string, turns int, flags ...string) {
	const calls = 1000
	say := fmt.Sprintf(`{"text":%s}`, encoded(t, fakeserver.Prose(100)))
	code := fmt.Sprintf(`{"code":%s}`, encoded(t, fmt.Sprintf("for (let i = 0; i < %d; i++) await call('s0:say', %s); return 'done'", calls, say)))
	home := t.TempDir()
	serve, legacy := scriptClients(t, program, home, filepath.Join(home, "data"), flags...)
	modern := mcptest.Start(t, program, serve, home, environmentIn(home))
	modern.Declare(`{"elicitation":{"form":{}}}`)
	if _, err := modern.Discover(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, c := range []mcptest.Requester{legacy, modern} {
		timed(t, c, "s0__say", say, "")
		timed(t, c, "run_script", emptyScript, "done")
	}
	r := route{program: program, home: home}
	took, used := map[string][]float64{}, map[string][]float64{}
	for range turns {
		for _, w := range []struct {
			name string
			act  func()
		}{
			{"an empty script", func() { timed(t, legacy, "run_script", emptyScript, "done") }},
			{"an empty script of a modern client", func() { timed(t, modern, "run_script", emptyScript, "done") }},
			{"1,000 calls of a client", func() {
				for range calls {
					timed(t, legacy, "s0__say", say, "")
				}
			}},
			{"1,000 calls of a script", func() { timed(t, legacy, "run_script", code, "done") }},
			{"1,000 calls of a modern client's script", func() { timed(t, modern, "run_script", code, "done") }},
		} {
			before, _ := r.cpu(t)
			begun := time.Now()
			w.act()
			took[w.name] = append(took[w.name], milliseconds(time.Since(begun)))
			after, _ := r.cpu(t)
			used[w.name] = append(used[w.name], milliseconds(after-before))
		}
	}
	for name, times := range took {
		fmt.Printf("%s: %s: median %s ms, least %s, CPU time of the router %s\n", t.name, name, median(times), short(slices.Min(times)), median(used[name]))
	}
}
