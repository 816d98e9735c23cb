package evaluation_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/internal/encoder"
	"github.com/mcp-metarouter/metarouter/internal/index"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector"
	"github.com/mcp-metarouter/metarouter/test/evaluation"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// corpora returns the first n tools of real catalogs, or all for 0, and queries for
// them, from METAROUTER_RETRIEVAL.
func corpora(b *testing.B, n int) (tools []registry.NormalizedTool, queries []evaluation.Example) {
	b.Helper()
	folder := os.Getenv("METAROUTER_RETRIEVAL")
	if folder == "" {
		b.Skip("METAROUTER_RETRIEVAL names no folder of corpora")
	}
	files := make([]string, 0, 3)
	for _, corpus := range []string{"livemcpbench", "mcpbench", "mcp-pool"} {
		files = append(files, filepath.Join(folder, corpus, "tools.jsonl"))
	}
	tools, err := evaluation.ReadCatalog(zap.NewNop(), files...)
	expect.OK(b, err)
	for _, corpus := range []string{"livemcpbench", "mcpbench"} {
		more, err := evaluation.ReadExamples(filepath.Join(folder, corpus, "queries.jsonl"))
		expect.OK(b, err)
		queries = append(queries, more...)
	}
	if n > 0 {
		tools = tools[:n]
	}
	return tools, queries
}

func open(b *testing.B, tools []registry.NormalizedTool) (*registry.Registry, *index.Indexes) {
	b.Helper()
	r, err := evaluation.Register(tools)
	expect.OK(b, err)
	x := index.New(r)
	_, err = x.Tools(b.Context())
	expect.OK(b, err)
	return r, x
}

func sizes(b *testing.B, run func(*testing.B, []registry.NormalizedTool, []evaluation.Example)) {
	for _, n := range []int{100, 1_000, 0} {
		tools, queries := corpora(b, n)
		b.Run(fmt.Sprint(len(tools)), func(b *testing.B) { run(b, tools, queries) })
	}
}

// BenchmarkRealIndex makes a searchable registry of lists of tools; MB is what the
// heap holds because of it.
func BenchmarkRealIndex(b *testing.B) {
	sizes(b, func(b *testing.B, tools []registry.NormalizedTool, _ []evaluation.Example) {
		before := heap()
		var held float64
		for b.Loop() {
			r, x := open(b, tools)
			b.StopTimer()
			held = heap() - before
			expect.OK(b, x.Close())
			runtime.KeepAlive(r)
			b.StartTimer()
		}
		b.ReportMetric(held/1e6, "MB")
	})
}

func heap() float64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

// BenchmarkRealUpdate changes the 50 tools of one server until searches see it.
func BenchmarkRealUpdate(b *testing.B) {
	sizes(b, func(b *testing.B, tools []registry.NormalizedTool, _ []evaluation.Example) {
		r, x := open(b, tools)
		defer func() { _ = x.Close() }()
		edited := slices.Clone(tools[:50])
		for i := 0; b.Loop(); i++ {
			for j := range edited {
				edited[j].Server = "edited"
				edited[j].Name = fmt.Sprintf("tool_%d", j)
				edited[j].ID = "edited:" + edited[j].Name
				edited[j].Description = fmt.Sprintf("%s, edition %d", tools[j].Description, i)
			}
			_, err := r.Replace("edited", registry.Offer{Tools: slices.Clone(edited)})
			expect.OK(b, err)
			_, err = x.Tools(b.Context())
			expect.OK(b, err)
		}
	})
}

// BenchmarkRealFind asks real queries, most of them long, after all tools are encoded; p50 and p99 are of
// single queries. METAROUTER_VECTORS names a folder that keeps the vectors for the next time.
func BenchmarkRealFind(b *testing.B) {
	sizes(b, func(b *testing.B, tools []registry.NormalizedTool, queries []evaluation.Example) {
		r, err := evaluation.Register(tools)
		expect.OK(b, err)
		s := selector.New(r, selector.Options{Vectors: encoder.OpenStore(encoder.Tool, os.Getenv("METAROUTER_VECTORS"))})
		defer s.Close()
		expect.OK(b, s.Encode(b.Context()))
		var took []time.Duration
		for i := 0; b.Loop(); i++ {
			begun := time.Now()
			_, err := s.Find(b.Context(), selector.Query{Task: queries[i%len(queries)].Text})
			expect.OK(b, err)
			took = append(took, time.Since(begun))
		}
		slices.Sort(took)
		b.ReportMetric(float64(took[len(took)/2])/1e6, "p50-ms")
		b.ReportMetric(float64(took[len(took)*99/100])/1e6, "p99-ms")
	})
}
