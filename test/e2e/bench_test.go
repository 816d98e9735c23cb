//go:build unix

package e2e

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

// BenchmarkCall measures an echo call of several sizes, directly and through the
// router, one at a time and 64 at once. Only ratios mean anything.
func BenchmarkCall(b *testing.B) {
	command, args := mcptest.Command("-tools", "echo")
	direct := mcptest.Start(b, command, args, b.TempDir(), nil)
	if _, err := direct.Initialize(b.Context()); err != nil {
		b.Fatal(err)
	}
	dir := b.TempDir()
	config := filepath.Join(dir, "mcp.json")
	text, err := json.Marshal(map[string]any{"mcpServers": entries{"s": fake("-tools", "echo")}})
	if err != nil {
		b.Fatal(err)
	}
	if err := writeFile(config, string(text)); err != nil {
		b.Fatal(err)
	}
	router := mcptest.Start(b, metarouter, []string{"serve", "--mode", "direct", "--config", config, "--data", dir}, dir, nil)
	if _, err := router.Initialize(b.Context()); err != nil {
		b.Fatal(err)
	}
	for _, size := range []int{100, 64 << 10, 1 << 20} {
		message := json.RawMessage(fmt.Sprintf(`{"message":%q}`, strings.Repeat("prose, with \"quotes\". ", size/20)[:size]))
		for _, way := range []struct {
			name   string
			client *mcptest.Client
			tool   string
		}{{"direct", direct, "echo"}, {"router", router, "s__echo"}} {
			call := func(b *testing.B) {
				if _, err := way.client.Call(b.Context(), way.tool, message); err != nil {
					b.Error(err)
				}
			}
			b.Run(fmt.Sprintf("bytes=%d/way=%s", size, way.name), func(b *testing.B) {
				for b.Loop() {
					call(b)
				}
			})
			if size == 100 {
				b.Run(fmt.Sprintf("bytes=%d/at-once=64/way=%s", size, way.name), func(b *testing.B) {
					b.SetParallelism(32)
					b.RunParallel(func(pb *testing.PB) {
						for pb.Next() {
							call(b)
						}
					})
				})
			}
		}
	}
}
