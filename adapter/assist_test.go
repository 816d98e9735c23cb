package adapter

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/mcp-metarouter/metarouter/config"

	"github.com/mcp-metarouter/metarouter/test/play"
)

// chooses serves a model that always gives the same answer.
func chooses(t *testing.T, answer string) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer hidden" {
			t.Errorf("headers %v", r.Header)
		}
		fmt.Fprintf(w, `{"choices":[{"message":{"content":%q}}]}`, answer)
	}))
	t.Cleanup(s.Close)
	return s.URL + "/v1"
}

// The model of the configuration in use is asked, and its failures are logged
// without secrets.
func TestAssistantFollowsConfiguration(t *testing.T) {
	core, logs := observer.New(zap.InfoLevel)
	r := New(config.Config{}, Options{Play: play.Server, Log: zap.New(core)})
	defer r.Close()
	p := r.parts
	use := func(a *config.Assist) { r.current.edit(config.Config{Router: config.Router{Assist: a}}) }
	named := func(url string) *config.Assist {
		return &config.Assist{Endpoint: config.Endpoint{URL: url, Model: "m", Headers: map[string]string{"Authorization": "Bearer hidden"}}}
	}
	choices := []string{"a:one: first", "a:two: second"}
	for _, a := range []*config.Assist{nil, {Sampling: true}} {
		if use(a); p.Assistant() != nil {
			t.Errorf("%+v: there is a model", a)
		}
	}
	for i, answer := range []string{"1", "2"} {
		use(named(chooses(t, answer)))
		if got, err := p.Assistant().Choose(t.Context(), "x", choices); got != i || err != nil {
			t.Errorf("it chose %d, %v", got, err)
		}
	}
	use(named(chooses(t, "what?")))
	for range 5 {
		if got, err := p.Assistant().Choose(t.Context(), "x", choices); err == nil {
			t.Errorf("it chose %d", got)
		}
	}
	if n := logs.Len(); n != 3 {
		t.Errorf("%d lines are logged: %v", n, logs.All())
	}
	if use(nil); p.Assistant() != nil {
		t.Error("there is a model still")
	}
}
