//go:build linux

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
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
func scriptClients(b *testing.B, home, data string, more ...string) ([]string, *lineClient) {
	b.Helper()
	command, args := mcptest.Command("-tools", "say")
	file := writeServers(b, home, entries{"s0": {"command": command, "args": args}}, withScripts)
	serve := append([]string{"serve", "--mode", "direct", "--profile", "code", "--config", file, "--data", data}, more...)
	c, err := newLineClient(b, metarouter, serve, home, environmentIn(home))
	if err != nil {
		b.Fatal(err)
	}
	return serve, c
}

// timed returns the milliseconds that a call takes. Its answer must have the text want.
func timed(b *testing.B, c mcptest.Requester, tool, arguments, want string) float64 {
	b.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	begun := time.Now()
	answer, err := c.Request(ctx, "tools/call", json.RawMessage(fmt.Sprintf(`{"name":%q,"arguments":%s}`, tool, arguments)))
	took := time.Since(begun).Seconds() * 1000
	if err != nil || !strings.Contains(string(answer), want) {
		b.Fatalf("%s: %v, %.300s", tool, err, answer)
	}
	return took
}

// BenchmarkScriptFirst measures the first script of a process, without and with kept machine code.
func BenchmarkScriptFirst(b *testing.B) {
	for _, cache := range []string{"cold", "warm"} {
		b.Run("cache="+cache, func(b *testing.B) {
			kept := b.TempDir()
			var times []float64
			for i := range b.N + 1 { // the first one fills the cache
				home, data := b.TempDir(), kept
				if cache == "cold" {
					data = filepath.Join(home, "data")
				}
				_, c := scriptClients(b, home, data, "--standalone")
				timed(b, c, "s0__say", `{"text":"hello"}`, "hello")
				if took := timed(b, c, "run_script", `{"code":"return 'done'"}`, "done"); i > 0 {
					times = append(times, took)
				}
				c.process.Process.Kill()
				<-c.ended
			}
			b.ReportMetric(middle(times), "p50-ms")
		})
	}
}

// BenchmarkScript measures an empty script, and a thousand calls of 100 bytes: by a client, one after the other, and by
// scripts. The first client is a legacy one; the second one is modern and can ask its person, so that its scripts have a
// journal on disk. Metrics are medians, but
// for min; cpu is the CPU time of the router's processes.
func BenchmarkScript(b *testing.B) {
	const calls = 1000
	text := fakeserver.Prose(100)
	say := fmt.Sprintf(`{"text":%s}`, encoded(b, text))
	code := fmt.Sprintf(`{"code":%s}`, encoded(b, fmt.Sprintf("for (let i = 0; i < %d; i++) await call('s0:say', %s); return 'done'", calls, say)))
	empty := `{"code":"return 'done'"}`
	for _, how := range []string{"shared", "standalone"} {
		b.Run("router="+how, func(b *testing.B) {
			home := b.TempDir()
			var more []string
			if how == "standalone" {
				more = append(more, "--standalone")
			}
			serve, legacy := scriptClients(b, home, filepath.Join(home, "data"), more...)
			modern := mcptest.Start(b, metarouter, serve, home, environmentIn(home))
			modern.Declare(`{"elicitation":{"form":{}}}`)
			if _, err := modern.Discover(b.Context()); err != nil {
				b.Fatal(err)
			}
			for _, c := range []mcptest.Requester{legacy, modern} {
				timed(b, c, "s0__say", say, "")
				timed(b, c, "run_script", empty, "done")
			}
			b.Run("empty", func(b *testing.B) {
				var times, journaled []float64
				for b.Loop() {
					times = append(times, timed(b, legacy, "run_script", empty, "done"))
					journaled = append(journaled, timed(b, modern, "run_script", empty, "done"))
				}
				b.ReportMetric(middle(times), "p50-ms")
				b.ReportMetric(middle(journaled), "journal-p50-ms")
			})
			b.Run(fmt.Sprintf("calls=%d", calls), func(b *testing.B) {
				compare(b, route{program: metarouter, home: home}, []measured{
					{"client", func() {
						for range calls {
							timed(b, legacy, "s0__say", say, "")
						}
					}},
					{"script", func() { timed(b, legacy, "run_script", code, "done") }},
					{"journal", func() { timed(b, modern, "run_script", code, "done") }},
				})
			})
		})
	}
}

// A measured way to make calls.
type measured struct {
	name string
	act  func()
}

// compare measures ways in turns; the ratios are to the first.
func compare(b *testing.B, r route, ways []measured) {
	took, used := map[string][]float64{}, map[string][]float64{}
	for b.Loop() {
		for _, w := range ways {
			before, _ := r.cpu(b)
			begun := time.Now()
			w.act()
			took[w.name] = append(took[w.name], time.Since(begun).Seconds()*1000)
			after, _ := r.cpu(b)
			used[w.name] = append(used[w.name], (after-before).Seconds()*1000)
		}
	}
	for _, w := range ways {
		b.ReportMetric(middle(took[w.name]), w.name+"-ms")
		b.ReportMetric(slices.Min(took[w.name]), w.name+"-min-ms")
		b.ReportMetric(middle(used[w.name]), w.name+"-cpu-ms")
		b.ReportMetric(middle(took[w.name])/middle(took[ways[0].name]), w.name+"/"+ways[0].name)
	}
}
