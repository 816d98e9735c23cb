package server

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/internal/content"
	"github.com/mcp-metarouter/metarouter/internal/exposure"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/selector"
	"github.com/mcp-metarouter/metarouter/test/evaluation"
	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/layer"
)

// A searching router finds tools as the real one does.
type searching struct {
	*fakeRouter
	selector *selector.Selector
}

func (r searching) Find(ctx context.Context, q selector.Query) (selector.Ranking, error) {
	return r.selector.Find(ctx, q)
}

// TestAnswers says what find_tools costs on real tools and queries, and how often
// a right tool is in its answers. METAROUTER_RETRIEVAL names a folder of corpora:
// folders with tools.jsonl and queries.jsonl.
func TestAnswers(t *testing.T) {
	folder := os.Getenv("METAROUTER_RETRIEVAL")
	if folder == "" {
		t.Skip("METAROUTER_RETRIEVAL names no folder of corpora")
	}
	files, err := filepath.Glob(filepath.Join(folder, "*", "queries.jsonl"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: no queries.jsonl in any folder, %v", folder, err)
	}
	for _, file := range files {
		corpus := filepath.Dir(file)
		tools, err := evaluation.ReadCatalog(zap.NewNop(), filepath.Join(corpus, "tools.jsonl"))
		expect.OK(t, err)
		if len(tools) > 600 && layer.Strict() && !layer.Everything() { // a minute of encoding, for each change
			continue
		}
		queries, err := evaluation.ReadExamples(file)
		expect.OK(t, err)
		fake := newFake(tools...)
		found := selector.New(fake.Registry, selector.Options{})
		expect.OK(t, found.Encode(t.Context()))
		s := newAlone(searching{fake, found}, Options{Mode: exposure.Search})
		var tokens []int
		present := 0
		const most = 400
		for _, q := range queries[:min(len(queries), most)] {
			args := wire.Marshal(map[string]string{"query": q.Text})
			raw, err := perform(t.Context(), s, []byte(`{"name":"find_tools","arguments":`+string(args)+`}`))
			expect.OK(t, err)
			var answer toolResult[json.RawMessage]
			expect.OK(t, json.Unmarshal(raw, &answer))
			tokens = append(tokens, len(answer.Content[0].Text)/content.TokenBytes)
			for _, r := range q.Relevant {
				if strings.Contains(answer.Content[0].Text, `"`+r.Server+":"+r.Name+`"`) {
					present++
					break
				}
			}
		}
		found.Close()
		slices.Sort(tokens)
		p99 := tokens[len(tokens)*99/100]
		t.Logf("%-16s %4d queries: %4d tokens in the median, %4d at p99; a right tool is in %.3f of the answers",
			filepath.Base(corpus), len(tokens), tokens[len(tokens)/2], p99, float64(present)/float64(len(tokens)))
		if p99 > defaultBudget+200 { // what is said beside the tools
			t.Errorf("%s: an answer costs %d tokens", corpus, p99)
		}
	}
}
