package doctor

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/registry"
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
		if err := AskAssist(t.Context(), c); err != nil {
			t.Errorf("%+v: %v", c, err)
		}
	}
	found := Examine(Case{Assist: context.DeadlineExceeded, Catalog: registry.New().Snapshot(), World: world{}})
	if !slices.ContainsFunc(found.Findings, func(f Finding) bool {
		return f.Severity == Warning && strings.Contains(f.Problem, "deadline") && f.Fix != ""
	}) {
		t.Errorf("findings: %+v", found.Findings)
	}
}
