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

func TestAskAssist(t *testing.T) {
	says := func(answer string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintf(w, `{"choices":[{"message":{"content":%q}}]}`, answer)
		}
	}
	for _, test := range []struct {
		answer http.HandlerFunc
		want   string // "" is no error
	}{
		{says("2"), ""},
		{says("1"), "does not find the tool that reads a file"},
		{says("Sure!"), "does not begin with a number"},
		{http.NotFound, `HTTP 404; are "url" and "model" right?`},
	} {
		s := httptest.NewServer(test.answer)
		err := AskAssist(t.Context(), &config.Assist{Endpoint: config.Endpoint{URL: s.URL, Model: "m"}})
		s.Close()
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("got %v, want %q", err, test.want)
		}
	}
	for _, c := range []*config.Assist{nil, {Sampling: true}} {
		expect.OK(t, AskAssist(t.Context(), c), "%+v", c)
	}
}

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
	found := Examine(Case{Assist: errors.New("no assist"), Embeddings: errors.New("no embeddings"), Catalog: registry.New().Snapshot(), World: world{}})
	for _, what := range []string{"no assist", "no embeddings"} {
		if !slices.ContainsFunc(found.Findings, func(f Finding) bool {
			return f.Severity == Warning && strings.Contains(f.Problem, what) && f.Fix != ""
		}) {
			t.Errorf("%q is not in the findings: %+v", what, found.Findings)
		}
	}
}
