//go:build linux

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/mcp-metarouter/metarouter/test/layer"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

// TestMemoryWithManyTools logs the router's memory with 20 servers of 716 tools each: idle, and after
// a hundred searches. METAROUTER_BEFORE measures another metarouter too.
func TestMemoryWithManyTools(t *testing.T) {
	layer.Full(t)
	if os.Getenv("METAROUTER_MANY_TOOLS") == "" {
		t.Skip("METAROUTER_MANY_TOOLS is not set")
	}
	const servers, tools, searches = 20, 716, 100
	light := lightServer(t)
	all := entries{}
	for i := range servers {
		_, args := mcptest.Command("-n", fmt.Sprint(tools))
		all[fmt.Sprintf("s%d", i)] = map[string]any{"command": light, "args": args}
	}
	ways := ourWays("metarouter", metarouter, "search")
	if before := os.Getenv("METAROUTER_BEFORE"); before != "" {
		ways = append(ourWays("before", before, "search"), ways...)
	}
	for _, w := range ways {
		t.Run(w.name, func(t *testing.T) {
			r, err := w.start(t, all)
			if err != nil {
				t.Fatal(err)
			}
			ask := func(tool, arguments string) error {
				params := json.RawMessage(fmt.Sprintf(`{"name":%q,"arguments":%s}`, tool, arguments))
				_, err := r.sessions[0].Request(within(t), "tools/call", params)
				return err
			}
			for i := range servers {
				mcptest.WaitFor(t, "a call of each server", func() bool {
					return ask("call_tool", fmt.Sprintf(`{"tool":"s%d:tool_0001","arguments":{}}`, i)) == nil
				})
			}
			time.Sleep(5 * time.Second) // until all are in the index
			log := func(when string) {
				m := memoryOf(t, r.processes(t))
				t.Logf("%s: PSS %.1f MiB, of it %.1f not from files and %.1f from files", when, m.all, m.anonymous, m.file)
			}
			log("idle")
			for i := range searches {
				if err := ask("find_tools", fmt.Sprintf(`{"query":"generated tool number %d"}`, i*7)); err != nil {
					t.Fatal(err)
				}
			}
			log(fmt.Sprintf("after %d searches", searches))
		})
	}
}
