package evaluation_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector"
	"github.com/mcp-metarouter/metarouter/test/evaluation"
	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/layer"
)

// worse is by how much the recall within a profile may be below that of a router that has only
// the tools of the profile. The two differ where a tool of the corpus has another description in
// another corpus.
const worse = 0.02

// TestRecallWithin searches the tools of one corpus in a router that has the tools of all corpora,
// and in one that has no others. METAROUTER_RETRIEVAL names the folder of the corpora.
func TestRecallWithin(t *testing.T) {
	layer.Full(t)
	folder := os.Getenv("METAROUTER_RETRIEVAL")
	if folder == "" {
		t.Skip("METAROUTER_RETRIEVAL names no folder of corpora")
	}
	read := func(corpora ...string) (ids map[string]bool, s *selector.Selector, all *registry.Snapshot) {
		var files []string
		for _, corpus := range corpora {
			files = append(files, filepath.Join(folder, corpus, "tools.jsonl"))
		}
		tools, err := evaluation.ReadCatalog(zap.NewNop(), files...)
		expect.OK(t, err)
		r, err := evaluation.Register(tools)
		expect.OK(t, err)
		ids = make(map[string]bool)
		for _, tool := range tools {
			ids[tool.ID] = true
		}
		s = selector.New(r, selector.Options{})
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
		return ids, s, r.Snapshot()
	}
	_, whole, catalog := read("livemcpbench", "mcpbench", "mcp-pool")
	expect.OK(t, whole.Encode(t.Context()))
	for _, corpus := range []string{"livemcpbench", "mcpbench"} {
		queries, err := evaluation.ReadExamples(filepath.Join(folder, corpus, "queries.jsonl"))
		expect.OK(t, err)
		ids, alone, own := read(corpus)
		expect.OK(t, alone.Encode(t.Context()))
		profile := catalog.Filtered(showing(func(t *registry.NormalizedTool) bool { return ids[t.ID] }), nil)
		if len(profile.Tools()) != len(own.Tools()) {
			t.Fatalf("%s: %d tools in the profile, %d in the corpus", corpus, len(profile.Tools()), len(own.Tools()))
		}
		recall := func(s *selector.Selector, q selector.Query) (evaluation.Scores, string) {
			var scores []evaluation.Scores
			sure, abstained := 0, 0
			for _, x := range queries {
				q.Task = x.Text
				found, err := s.Find(t.Context(), q)
				expect.OK(t, err)
				var ranked []string
				for _, c := range found.Candidates {
					ranked = append(ranked, c.IDs()...)
				}
				scores = append(scores, x.Score(ranked))
				if found.Sure {
					sure++
				}
				if found.Abstained {
					abstained++
				}
			}
			return evaluation.Mean(scores), fmt.Sprintf("%d sure, %d abstained", sure, abstained)
		}
		want, answers := recall(alone, selector.Query{})
		got, within := recall(whole, selector.Query{Catalog: profile})
		unfiltered, hidden := recall(whole, selector.Query{})
		t.Logf("%s: %d queries, %d of %d tools: Recall@1 within %.4f, alone %.4f, whole catalog %.4f; Recall@5 %.4f, %.4f, %.4f; within %s; alone %s; whole %s",
			corpus, len(queries), len(profile.Tools()), len(catalog.Tools()), got.Recall1, want.Recall1, unfiltered.Recall1,
			got.Recall5, want.Recall5, unfiltered.Recall5, within, answers, hidden)
		if got.Recall1 < want.Recall1-worse || got.Recall5 < want.Recall5-worse {
			t.Errorf("%s: the recall within the profile is too low", corpus)
		}
	}
}

// A showing is a [registry.Filter]: the tools for which it returns true.
type showing func(t *registry.NormalizedTool) bool

func (showing) Server(string) bool            { return true }
func (f showing) Item(i registry.Item) bool   { return i.Tool == nil || f(i.Tool) }
func (showing) Claim(server, uri string) bool { return true }

func (showing) Tool(t *registry.NormalizedTool) *registry.NormalizedTool { return t }
