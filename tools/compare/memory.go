//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

// compareMemory prints the router's memory with 20 servers of 716 tools each: idle, and after a hundred searches.
func compareMemory(t *T, o options) {
	const servers, tools, searches = 20, 716, 100
	light := built(t, "test/chaos")
	all := entries{}
	for i := range servers {
		_, args := mcptest.Command("-n", fmt.Sprint(tools))
		all[fmt.Sprintf("s%d", i)] = map[string]any{"command": light, "args": args}
	}
	for _, w := range ours(t, o, "search") {
		t.Run(w.name, func(t *T) {
			r, err := w.start(t, all)
			if err != nil {
				t.Fatal(err)
			}
			ask := func(tool, arguments string) error {
				params := json.RawMessage(fmt.Sprintf(`{"name":%q,"arguments":%s}`, tool, arguments))
				_, err := r.sessions[0].Request(t.Context(), "tools/call", params)
				return err
			}
			for i := range servers {
				mcptest.WaitFor(t, "a call of each server", func() bool {
					return ask("call_tool", fmt.Sprintf(`{"tool":"s%d:tool_0001","arguments":{}}`, i)) == nil
				})
			}
			time.Sleep(5 * time.Second) // until all are in the index
			show := func(when string) {
				m := memoryOf(t, r.processes(t))
				fmt.Printf("%s, %s: PSS %.1f MiB, of it %.1f not from files and %.1f from files\n", w.name, when, m.all, m.anonymous, m.file)
			}
			show("idle")
			for i := range searches {
				if err := ask("find_tools", fmt.Sprintf(`{"query":"generated tool number %d"}`, i*7)); err != nil {
					t.Fatal(err)
				}
			}
			show(fmt.Sprintf("after %d searches", searches))
		})
	}
}
