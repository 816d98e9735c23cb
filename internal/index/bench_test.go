package index

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

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

func filled(b *testing.B, n int) *searchable {
	r := open(b)
	for server, tools := range catalog(n) {
		replace(b, r, server, tools...)
	}
	if _, err := r.Tools(b.Context()); err != nil {
		b.Fatal(err)
	}
	return r
}

func BenchmarkIndex(b *testing.B) {
	for _, n := range []int{1_000, 14_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			servers := catalog(n)
			for b.Loop() {
				r := newSearchable()
				for server, tools := range servers {
					replace(b, r, server, tools...)
				}
				if _, err := r.Tools(b.Context()); err != nil {
					b.Fatal(err)
				}
				r.Close()
			}
		})
	}
}

// BenchmarkReplace is one change of one server's tools, as a reader of lists
// sees it.
func BenchmarkReplace(b *testing.B) {
	for _, n := range []int{1_000, 14_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			r := filled(b, n)
			for i := 0; b.Loop(); i++ {
				replace(b, r, "edited", tool("edited", "one", fmt.Sprint(i)))
			}
		})
	}
}

// BenchmarkUpdate is a change of 50 tools until searches see it; rebuilding the
// index now and then is part of it.
func BenchmarkUpdate(b *testing.B) {
	for _, n := range []int{1_000, 14_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			r := filled(b, n)
			for i := 0; b.Loop(); i++ {
				var tools []registry.NormalizedTool
				for j := range 50 {
					tools = append(tools, tool("edited", fmt.Sprintf("tool_%d", j), fmt.Sprintf("edit %d of a tool", i)))
				}
				replace(b, r, "edited", tools...)
				if _, err := r.Tools(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkSearch(b *testing.B) {
	for _, n := range []int{100, 1_000, 14_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			r := filled(b, n)
			var queries []string
			for i, t := range r.Snapshot().Tools() {
				if i%int(math.Sqrt(float64(n))) == 0 {
					queries = append(queries, strings.Join(strings.Fields(t.Description)[:8], " "))
				}
			}
			for i := 0; b.Loop(); i++ {
				if _, err := searchTools(r, b.Context(), Query{Text: queries[i%len(queries)]}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
