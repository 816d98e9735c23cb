package doctor

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

func TestAskEmbeddings(t *testing.T) {
	vectors := func(w http.ResponseWriter, r *http.Request) {
		var q struct{ Input []string }
		json.NewDecoder(r.Body).Decode(&q)
		var data []map[string]any
		for i := range q.Input {
			data = append(data, map[string]any{"index": i, "embedding": []int{1, 2}})
		}
		json.NewEncoder(w).Encode(map[string]any{"data": data})
	}
	for _, test := range []struct {
		answer http.HandlerFunc
		want   string // "" is no error
	}{
		{vectors, ""},
		{func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"data":[]}`) }, "0 vectors for 2 texts"},
		{http.NotFound, `HTTP 404; are "url" and "model" right?`},
	} {
		s := httptest.NewServer(test.answer)
		err := AskEmbeddings(t.Context(), &config.Endpoint{URL: s.URL, Model: "m"})
		s.Close()
		if test.want == "" && err != nil && strings.Contains(err.Error(), "150ms") {
			continue // this machine is slow
		}
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("got %v, want %q", err, test.want)
		}
	}
	expect.OK(t, AskEmbeddings(t.Context(), nil))
}

func TestModelsAreFindings(t *testing.T) {
	found := Examine(Case{Embeddings: errors.New("no embeddings"), Catalog: registry.New().Snapshot(), World: world{}})
	if !slices.ContainsFunc(found.Findings, func(f Finding) bool {
		return f.Severity == Warning && strings.Contains(f.Problem, "no embeddings") && f.Fix != ""
	}) {
		t.Errorf("it is not in the findings: %+v", found.Findings)
	}
}
