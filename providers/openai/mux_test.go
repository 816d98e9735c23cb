package openai

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/providers/mux"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// Models stand in for each other if they can do as much.
func TestMuxOfModels(t *testing.T) {
	chat := func(name string, model string, answers ...http.HandlerFunc) adapter.ProviderAdapter {
		o := (&endpoint{t: t, answers: answers}).serve()
		o.Models, o.MaxTries = []Model{{ID: model}}, 1
		c, err := New(name, o)
		expect.OK(t, err)
		return c
	}
	m, err := mux.New("all",
		chat("far", "qwen2.5-coder", refuse(401, "invalid_api_key", "who are you?")),
		chat("dull", "llama3", says("no")),
		chat("near", "devstral", says("def ", "f")))
	expect.OK(t, err)
	defer m.Close()
	r, err := adapter.Execute(t.Context(), m, "far:qwen2.5-coder", map[string]string{"prompt": "write f"})
	if err != nil || r.Text() != "def f" || r.Tool.ID != "near:devstral" || string(wire.Member(r.Meta(), "degraded")) != "true" || string(wire.Member(r.Meta(), "provider")) != `"near"` {
		t.Errorf("%s, %v", r.JSON, err)
	}
}

// Of many models that could stand in, the one of the same name is asked, and no more of
// its provider.
func TestMuxOfManyModels(t *testing.T) {
	first := &endpoint{t: t, answers: []http.HandlerFunc{refuse(401, "", "who are you?")}}
	second := &endpoint{t: t, answers: []http.HandlerFunc{refuse(401, "", "who are you?")}}
	var all []adapter.ProviderAdapter
	for name, e := range map[string]*endpoint{"far": first, "near": second} {
		o := e.serve()
		for i := range 100 {
			o.Models = append(o.Models, Model{ID: fmt.Sprintf("llama-%02d", i)})
		}
		c, err := New(name, o)
		expect.OK(t, err)
		all = append(all, c)
	}
	m, err := mux.New("all", all...)
	expect.OK(t, err)
	defer m.Close()
	r, err := adapter.Execute(t.Context(), m, "far:llama-77", map[string]string{"prompt": "x"})
	if err != nil || !r.IsError || string(wire.Member(r.Meta(), "execution_path")) != `["local","far:llama-77","near:llama-77"]` || len(second.requests()) != 1 {
		t.Errorf("%s, %v; %d requests", r.JSON, err, len(second.requests()))
	}
}
