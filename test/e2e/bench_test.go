//go:build linux

package e2e

import (
	"fmt"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/fakeserver"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

// BenchmarkCall measures an echo call of several sizes, directly and through the
// router, one at a time and 64 at once. router-ns/op is the CPU time of all of the router's processes
// for a call. Only ratios mean anything.
func BenchmarkCall(b *testing.B) {
	command, args := mcptest.Command("-tools", "say")
	servers := entries{"s0": {"command": command, "args": args}}
	for _, w := range append([]way{{name: "direct", startAt: startDirect}}, ourWays("router", metarouter, "direct")...) {
		r, err := w.start(b, servers)
		if err != nil {
			b.Fatal(err)
		}
		if w.ours {
			awaitTools(b, r, 1)
		}
		for _, tt := range []struct{ bytes, callers int }{{100, 1}, {100, 64}, {64 << 10, 1}, {1 << 20, 1}} {
			q := echo(fakeserver.Prose(tt.bytes), "say", "text")
			b.Run(fmt.Sprintf("way=%s/bytes=%d/callers=%d", w.name, tt.bytes, tt.callers), func(b *testing.B) {
				before, counted := r.cpu(b)
				b.SetParallelism(tt.callers)
				if tt.callers == 1 {
					for b.Loop() {
						if err := q.ask(r, 0); err != nil {
							b.Fatal(err)
						}
					}
				} else {
					b.RunParallel(func(pb *testing.PB) {
						for pb.Next() {
							if err := q.ask(r, 0); err != nil {
								b.Error(err)
							}
						}
					})
				}
				if after, _ := r.cpu(b); counted {
					b.ReportMetric(float64(after-before)/float64(b.N), "router-ns/op")
				}
			})
		}
	}
}
