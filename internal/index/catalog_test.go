package index

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/mcp-metarouter/metarouter/registry"
)

// catalog returns n synthetic tools, 20 a server, whose words follow Zipf's law
// as those of a language do.
func catalog(n int) map[string][]registry.NormalizedTool {
	rnd := rand.New(rand.NewPCG(1, 2))
	zipf := rand.NewZipf(rnd, 1.2, 8, 20_000)
	words := func(n int, sep string) string {
		list := make([]string, n)
		for i := range list {
			list[i] = fmt.Sprintf("w%c%x", 'a'+rune(zipf.Uint64()%7), zipf.Uint64())
		}
		return strings.Join(list, sep)
	}
	servers := make(map[string][]registry.NormalizedTool)
	for i := range n {
		server := fmt.Sprintf("server%d", i/20)
		t := tool(server, fmt.Sprintf("%s_%d", words(3, "_"), i), words(25, " "), "web")
		t.InputSchema = json.RawMessage(fmt.Sprintf(`{"type":"object","properties":{%q:{"description":%q},%q:{"description":%q}}}`,
			words(2, "_"), words(8, " "), words(1, ""), words(8, " ")))
		servers[server] = append(servers[server], t)
	}
	return servers
}
